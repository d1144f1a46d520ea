import { PluginType, type DataSourceInstanceSettings } from '@grafana/data';
import type { TemplateSrv } from '@grafana/runtime';
import { vi } from 'vitest';

import { LeaderDatasource } from '../datasource';

const settings: DataSourceInstanceSettings = {
  id: 1,
  uid: 'uid',
  type: 'plexsphere-leader-datasource',
  name: 'Leader',
  access: 'proxy',
  readOnly: false,
  jsonData: {},
  meta: {
    id: 'plexsphere-leader-datasource',
    name: 'Leader',
    type: PluginType.datasource,
    module: '',
    baseUrl: '',
    info: {
      author: { name: '' },
      description: '',
      links: [],
      logos: { small: '', large: '' },
      screenshots: [],
      updated: '',
      version: '',
    },
  },
};

/** A data source whose exporter has two targets, one database and one lock, and whose templates know some variables. */
export function testDatasource(variables: Record<string, string | string[]> = {}) {
  const templates: TemplateSrv = {
    getVariables: () => [],
    containsTemplate: () => false,
    updateTimeRange: () => undefined,
    replace: (text = '', _scoped, format?: string | ((value: string | string[]) => string)) => {
      const value = text.startsWith('$') ? variables[text.slice(1)] : undefined;
      return value === undefined ? text : typeof format === 'function' ? format(value) : String(value);
    },
  };
  const datasource = new LeaderDatasource(settings, templates);
  const names: Record<string, string[]> = { targets: ['eu', 'us'], databases: ['plexsphere'], locks: ['background-leader'] };
  const getResource = vi.spyOn(datasource, 'getResource').mockImplementation((path) => Promise.resolve(names[path]));
  return { datasource, getResource };
}
