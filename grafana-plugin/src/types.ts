import type { DataSourceJsonData } from '@grafana/data';
import type { DataQuery } from '@grafana/schema';

export type QueryType = 'current' | 'terms' | 'timeline' | 'stats' | 'annotations' | 'events';
export type Stat = 'holders' | 'waiters' | 'heartbeat_age_seconds' | 'all';

/** Names that a lock must have; an empty list, like none, is every name. */
export interface Filter {
  targets?: string[];
  databases?: string[];
  locks?: string[];
}

/** What a panel asks. pkg/plugin/query.go has the same. */
export interface LeaderQuery extends DataQuery, Filter {
  queryType?: QueryType;
  limit?: number;
  stat?: Stat;
  live?: boolean;
}

/** The kinds of names that a variable can have, as the backend calls them. */
export type NameKind = 'targets' | 'databases' | 'locks';

export interface LeaderVariableQuery extends DataQuery, Filter {
  kind?: NameKind;
}

/** SecureData is what the backend alone can read. */
export interface SecureData {
  bearerToken?: string;
}

export type JsonData = DataSourceJsonData;
