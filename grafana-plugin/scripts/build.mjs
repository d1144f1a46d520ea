// Builds the frontend into dist/: module.js, plugin.json, the logo, the dashboard, and the texts. The binaries are make's.
import { build } from 'esbuild';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';

import { dashboard } from './dashboard.mjs';

// What Grafana gives to a plugin.
const given = ['react', 'react-dom', 'rxjs', '@grafana/data', '@grafana/runtime', '@grafana/ui'];

const options = {
  entryPoints: ['src/module.ts'],
  outfile: 'dist/module.js',
  bundle: true,
  external: given,
  format: 'cjs',
  platform: 'browser',
  target: 'es2022',
  jsx: 'transform',
  minify: true,
  sourcemap: 'linked',
  metafile: true,
};

// Grafana loads AMD modules, which esbuild does not write: a define around what it writes makes one.
async function bundle() {
  const { metafile } = await build({ ...options, write: false });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  const needed = JSON.stringify([...new Set(imports.filter(({ external }) => external).map(({ path }) => path))].sort());
  await build({
    ...options,
    banner: {
      js:
        `define(${needed},function(){var given=arguments,names=${needed},module={exports:{}},exports=module.exports,` +
        `require=function(name){return given[names.indexOf(name)]};`,
    },
    footer: { js: 'return module.exports});' },
  });
}

async function main() {
  await rm('dist', { recursive: true, force: true });
  await mkdir('dist/dashboards', { recursive: true });
  await bundle();
  const { version } = JSON.parse(await readFile('package.json', 'utf8'));
  // The time of the commit, so that the same commit gives the same bytes.
  const time = new Date(Number(process.env.SOURCE_DATE_EPOCH ?? 0) * 1000).toISOString().slice(0, 10);
  const manifest = await readFile('src/plugin.json', 'utf8');
  await writeFile('dist/plugin.json', manifest.replace('%VERSION%', version).replace('%TODAY%', time));
  await writeFile('dist/dashboards/leaders.json', `${JSON.stringify(dashboard(), null, 2)}\n`);
  await cp('src/img', 'dist/img', { recursive: true });
  for (const name of ['README.md', 'CHANGELOG.md', 'LICENSE']) {
    await cp(name, `dist/${name}`);
  }
}

await main();
