import { CustomVariableSupport, type DataQueryRequest, type DataQueryResponse } from '@grafana/data';
import { from, map, type Observable } from 'rxjs';

import { VariableEditor } from './components/VariableEditor';
import type { LeaderDatasource } from './datasource';
import type { LeaderVariableQuery } from './types';

/** LeaderVariables fills template variables with names that the exporter knows. */
export class LeaderVariables extends CustomVariableSupport<LeaderDatasource, LeaderVariableQuery> {
  editor = VariableEditor;

  constructor(private readonly datasource: LeaderDatasource) {
    super();
  }

  query(request: DataQueryRequest<LeaderVariableQuery>): Observable<DataQueryResponse> {
    const [query] = request.targets;
    return from(this.datasource.names(query?.kind ?? 'targets', query ?? {}, request.scopedVars)).pipe(
      map((names) => ({ data: names.map((text) => ({ text })) }))
    );
  }
}
