import {
  LiveChannelScope,
  type AnnotationSupport,
  type DataSourceInstanceSettings,
  type ScopedVars,
} from '@grafana/data';
import {
  DataSourceWithBackend,
  StreamingFrameAction,
  getTemplateSrv,
  type StreamOptionsProvider,
  type TemplateSrv,
} from '@grafana/runtime';

import { AnnotationEditor } from './components/QueryEditor';
import type { Filter, LeaderQuery, NameKind } from './types';
import { LeaderVariables } from './variables';

/** LeaderDatasource hands queries to the backend, which answers from the exporter's API. */
export class LeaderDatasource extends DataSourceWithBackend<LeaderQuery> {
  annotations: AnnotationSupport<LeaderQuery> = {
    QueryEditor: AnnotationEditor,
    getDefaultQuery: () => ({ queryType: 'annotations' }),
    prepareQuery: (annotation) => ({ refId: 'Anno', ...annotation.target, queryType: 'annotations' }),
  };

  // The present state replaces the one before. Changes are added to those before, as long as they are in the range.
  streamOptionsProvider: StreamOptionsProvider<LeaderQuery> = (request, frame) => {
    const maxLength = Math.max(request.maxDataPoints ?? 0, 1000);
    if (frame.meta?.channel?.startsWith(`${LiveChannelScope.DataSource}/${this.uid}/current`)) {
      return { maxLength, action: StreamingFrameAction.Replace };
    }
    const maxDelta = request.range.to.valueOf() - request.range.from.valueOf();
    return { maxLength, maxDelta, action: StreamingFrameAction.Append };
  };

  constructor(
    settings: DataSourceInstanceSettings,
    private readonly templates: TemplateSrv = getTemplateSrv()
  ) {
    super(settings);
    this.variables = new LeaderVariables(this);
  }

  getDefaultQuery(): Partial<LeaderQuery> {
    return { queryType: 'current' };
  }

  applyTemplateVariables(query: LeaderQuery, scoped: ScopedVars): LeaderQuery {
    return { ...query, ...this.interpolate(query, scoped) };
  }

  /** interpolate puts the values of variables in, each as a name of its own. */
  interpolate(filter: Filter, scoped: ScopedVars): Required<Filter> {
    const values = (names: string[] = []) => names.flatMap((name) => this.valuesOf(name, scoped));
    return { targets: values(filter.targets), databases: values(filter.databases), locks: values(filter.locks) };
  }

  private valuesOf(name: string, scoped: ScopedVars): string[] {
    let several: string[] | undefined;
    const text = this.templates.replace(name, scoped, (value: string | string[]) => {
      if (Array.isArray(value)) {
        several = value;
        return '';
      }
      return value;
    });
    return several ?? (text === '' ? [] : [text]);
  }

  /** names returns the targets, databases or locks of the exporter that the filter lets pass. */
  names(kind: NameKind, filter: Filter, scoped: ScopedVars = {}): Promise<string[]> {
    const { targets, databases, locks } = this.interpolate(filter, scoped);
    return this.getResource<string[]>(kind, { target: targets, datname: databases, lock: locks });
  }
}
