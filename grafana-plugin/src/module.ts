import { DataSourcePlugin } from '@grafana/data';

import { ConfigEditor } from './components/ConfigEditor';
import { QueryEditor } from './components/QueryEditor';
import { LeaderDatasource } from './datasource';
import type { JsonData, LeaderQuery, SecureData } from './types';

export const plugin = new DataSourcePlugin<LeaderDatasource, LeaderQuery, JsonData, SecureData>(LeaderDatasource)
  .setConfigEditor(ConfigEditor)
  .setQueryEditor(QueryEditor);
