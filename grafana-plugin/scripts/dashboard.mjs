// The dashboard that comes with the plugin. It uses this data source alone.
const datasource = { type: 'plexsphere-leader-datasource', uid: '${datasource}' };
const filter = { targets: ['$target'], databases: ['$database'], locks: ['$lock'] };

const query = (queryType, more = {}) => ({ refId: 'A', datasource, queryType, ...filter, ...more });

const table = { custom: { filterable: true } };
const hide = (...names) => names.map((id) => ({ matcher: { id: 'byName', options: id }, properties: [{ id: 'custom.hidden', value: true }] }));

// What is asked, and how it looks, a panel each.
const panels = {
  current: {
    type: 'table',
    title: 'Who leads',
    description: 'The holder of each lock, as the exporter sees it at present. It changes with the lock, without a refresh.',
    targets: [query('current', { live: true })],
    fieldConfig: {
      defaults: { unit: 'none', ...table },
      overrides: [
        { matcher: { id: 'byName', options: 'verdict' }, properties: [{ id: 'custom.cellOptions', value: { type: 'color-text' } }] },
        ...hide('key', 'usename', 'backend_start', 'foreign', 'visible'),
      ],
    },
    options: { showHeader: true },
  },
  timeline: {
    type: 'state-timeline',
    title: 'Leaders over time',
    description: 'Each term from the first poll that saw it to the first that did not. Time in which nobody looked is unknown.',
    targets: [query('timeline')],
    fieldConfig: { defaults: { unit: 'none', color: { mode: 'palette-classic' }, custom: { fillOpacity: 80, lineWidth: 0 } }, overrides: [] },
    options: { mergeValues: true, showValue: 'auto', rowHeight: 0.8, legend: { displayMode: 'list', placement: 'bottom', showLegend: true } },
  },
  holders: {
    type: 'stat',
    title: 'Sessions that hold the lock',
    description: 'One is right. Empty where the exporter cannot ask the server.',
    targets: [query('stats', { stat: 'holders' })],
    fieldConfig: {
      defaults: {
        unit: 'short',
        displayName: '${__field.labels.target} ${__field.labels.datname} ${__field.labels.lock}',
        noValue: 'unknown',
        color: { mode: 'thresholds' },
        thresholds: { mode: 'absolute', steps: [{ color: 'red', value: null }, { color: 'green', value: 1 }, { color: 'red', value: 2 }] },
      },
      overrides: [],
    },
    options: { colorMode: 'value', graphMode: 'none', reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false } },
  },
  heartbeat: {
    type: 'stat',
    title: "Age of the holder's heartbeat",
    description: "Time since the holder's last statement. Empty while nobody leads, and where the exporter's role cannot see it.",
    targets: [query('stats', { stat: 'heartbeat_age_seconds' })],
    fieldConfig: {
      defaults: {
        unit: 's',
        displayName: '${__field.labels.target} ${__field.labels.datname} ${__field.labels.lock}',
        noValue: 'unknown',
      },
      overrides: [],
    },
    options: { colorMode: 'none', graphMode: 'none', reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false } },
  },
  terms: {
    type: 'table',
    title: 'Terms',
    description: 'Who held which lock, newest first. A term began between started_after and start, and ended between last_seen and end.',
    targets: [query('terms')],
    fieldConfig: { defaults: { unit: 'none', ...table }, overrides: hide('usename', 'backend_start') },
    options: { showHeader: true },
  },
  events: {
    type: 'table',
    title: 'Changes',
    description: 'Changes since this page was opened, as they happen.',
    targets: [query('events')],
    fieldConfig: { defaults: { unit: 'none', ...table }, overrides: [] },
    options: { showHeader: true, sortBy: [{ displayName: 'time', desc: true }] },
  },
};

const place = (panel, id, x, y, w, h) => ({ ...panel, id, datasource, gridPos: { x, y, w, h } });

const variable = (name, label, kind, narrowed) => ({
  type: 'query',
  name,
  label,
  datasource,
  query: { refId: name, kind, ...narrowed },
  multi: true,
  includeAll: true,
  current: { text: ['All'], value: ['$__all'] },
  refresh: 2,
  sort: 1,
});

/** dashboard returns it in the first schema, which every version since 12.3 reads. */
export function dashboard() {
  return {
    uid: 'plexsphere-leaders',
    title: 'Leaders',
    description: 'Who holds the locks that leader-exporter watches, and who held them before.',
    tags: ['leader-exporter'],
    schemaVersion: 41,
    editable: true,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: {
      list: [
        { type: 'datasource', name: 'datasource', label: 'Data source', query: 'plexsphere-leader-datasource' },
        variable('target', 'Target', 'targets', {}),
        variable('database', 'Database', 'databases', { targets: ['$target'] }),
        variable('lock', 'Lock', 'locks', { targets: ['$target'], databases: ['$database'] }),
      ],
    },
    annotations: {
      list: [{ name: 'Handovers', enable: true, iconColor: 'blue', datasource, target: query('annotations', { refId: 'Anno' }) }],
    },
    panels: [
      place(panels.current, 1, 0, 0, 24, 7),
      place(panels.timeline, 2, 0, 7, 24, 8),
      place(panels.holders, 3, 0, 15, 12, 6),
      place(panels.heartbeat, 4, 12, 15, 12, 6),
      place(panels.terms, 5, 0, 21, 14, 10),
      place(panels.events, 6, 14, 21, 10, 10),
    ],
  };
}
