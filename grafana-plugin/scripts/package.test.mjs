// Holds dist/, as make plugin leaves it, against what Grafana and its catalogue ask of a plugin.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import test from 'node:test';

const read = (name) => readFileSync(name, 'utf8');
const plugin = JSON.parse(read('dist/plugin.json'));
const dashboard = JSON.parse(read('dist/dashboards/leaders.json'));
// Those of the machines for which it was built.
const binaries = readdirSync('dist').filter((name) => name.startsWith('gpx_'));

test('plugin.json says what the plugin is', () => {
  assert.match(plugin.id, /^[0-9a-z]+-[0-9a-z]+-datasource$/);
  assert.equal(plugin.type, 'datasource');
  assert.equal(plugin.executable, 'gpx_leader');
  for (const name of ['backend', 'alerting', 'annotations', 'streaming', 'metrics', 'logs']) {
    assert.equal(plugin[name], true, name);
  }
  assert.equal(plugin.tracing, undefined, 'it would mean that queries return traces');
  assert.equal(plugin.dependencies.grafanaDependency, '>=12.3.0');
  assert.match(plugin.info.version, /^\d+\.\d+\.\d+$/);
  assert.match(plugin.info.updated, /^\d{4}-\d\d-\d\d$/);
  assert.ok(plugin.info.description && plugin.info.author.name && plugin.info.keywords.length > 0 && plugin.info.links.length > 0);
  assert.equal(plugin.info.version, JSON.parse(read('package.json')).version);
  assert.match(read('CHANGELOG.md'), new RegExp(`^## ${plugin.info.version}`, 'm'));
});

test('all files are there that it names', () => {
  for (const name of [plugin.info.logos.small, plugin.info.logos.large, ...plugin.includes.map(({ path }) => path)]) {
    assert.ok(existsSync(`dist/${name}`), name);
  }
  for (const name of ['README.md', 'CHANGELOG.md', 'LICENSE', 'module.js', 'module.js.map']) {
    assert.ok(statSync(`dist/${name}`).size > 100, name);
  }
  for (const name of readdirSync('dist/img')) {
    assert.match(name, /\.svg$/);
    assert.doesNotMatch(read(`dist/img/${name}`), /<script|href=|on\w+=/i);
  }
  assert.equal(read('LICENSE'), read('../LICENSE'));
});

test('the binaries can be run, and are of their machines', () => {
  assert.ok(binaries.length > 0);
  for (const name of binaries) {
    assert.equal(statSync(`dist/${name}`).mode & 0o777, 0o755, name);
    const machine = execFileSync('go', ['version', '-m', `dist/${name}`], { encoding: 'utf8' });
    const [, os, arch] = /^gpx_leader_([a-z]+)_([a-z0-9]+)$/.exec(name);
    assert.match(machine, new RegExp(`GOOS=${os}`));
    assert.match(machine, new RegExp(`GOARCH=${arch}`));
    assert.match(machine, /-trimpath=true/);
  }
});

test('the manifest has the hash of each Go source', () => {
  const lines = read('dist/go_plugin_build_manifest').trim().split('\n');
  assert.ok(lines.length > 10);
  for (const line of lines) {
    const [hash, name] = line.split(':');
    assert.equal(createHash('sha256').update(readFileSync(name)).digest('hex'), hash, name);
  }
});

test('the module is one that Grafana can load, and asks for what Grafana gives', () => {
  const given = new Set(['react', 'rxjs', '@grafana/data', '@grafana/runtime', '@grafana/ui']);
  let loaded;
  const component = class {};
  const anything = new Proxy(class {}, { get: (target, key) => (key in target ? target[key] : component) });
  const define = (names, make) => {
    for (const name of names) {
      assert.ok(given.has(name), `${name} is not shared by Grafana`);
    }
    class DataSourcePlugin {
      constructor(DataSource) {
        this.DataSource = DataSource;
      }
      setConfigEditor(editor) {
        this.config = editor;
        return this;
      }
      setQueryEditor(editor) {
        this.query = editor;
        return this;
      }
    }
    loaded = make(...names.map((name) => (name === '@grafana/data' ? new Proxy({ DataSourcePlugin }, { get: (o, k) => o[k] ?? component }) : anything)));
  };
  new Function('define', read('dist/module.js'))(define);
  assert.equal(typeof loaded.plugin.DataSource, 'function');
  assert.equal(typeof loaded.plugin.config, 'function');
  assert.equal(typeof loaded.plugin.query, 'function');
  assert.ok(statSync('dist/module.js').size < 50_000);
});

test('the plugin reads no file and no variable of the environment', () => {
  for (const folder of ['pkg/plugin', 'pkg/exporter']) {
    for (const name of readdirSync(folder).filter((file) => file.endsWith('.go') && !file.endsWith('_test.go'))) {
      assert.doesNotMatch(read(`${folder}/${name}`), /"(os|os\/exec|io\/ioutil|syscall\/js|unsafe|path\/filepath)"/, name);
    }
  }
});

test('each panel of the dashboard has a description, a unit, and the data source by variable', () => {
  assert.ok(dashboard.uid && dashboard.schemaVersion >= 39 && dashboard.__inputs === undefined);
  const asked = new Set();
  for (const panel of dashboard.panels) {
    assert.ok(panel.description, panel.title);
    assert.ok(panel.fieldConfig.defaults.unit, panel.title);
    for (const { datasource, ...target } of panel.targets) {
      assert.equal(datasource.uid, '${datasource}');
      assert.ok(!asked.has(JSON.stringify(target)), `${panel.title} asks what another panel asks`);
      asked.add(JSON.stringify(target));
    }
  }
  assert.equal(dashboard.templating.list[0].query, plugin.id);
  for (const { datasource } of [...dashboard.annotations.list, ...dashboard.templating.list.slice(1)]) {
    assert.equal(datasource.uid, '${datasource}');
  }
});

test('the zip holds dist/ under the id', () => {
  const bytes = readFileSync(`${plugin.id}.zip`);
  for (const name of ['plugin.json', 'module.js', 'img/logo.svg', ...binaries]) {
    assert.ok(bytes.includes(`${plugin.id}/${name}`), name);
  }
});
