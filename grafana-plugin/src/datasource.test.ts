import { dateTime, toDataFrame, type DataQueryRequest } from '@grafana/data';
import { StreamingFrameAction } from '@grafana/runtime';
import { firstValueFrom } from 'rxjs';
import { describe, expect, it } from 'vitest';

import { testDatasource } from './test/datasource';
import type { LeaderQuery, LeaderVariableQuery } from './types';
import { LeaderVariables } from './variables';

const request = (maxDataPoints: number): DataQueryRequest<LeaderQuery> => ({
  requestId: 'Q1',
  interval: '1s',
  intervalMs: 1000,
  maxDataPoints,
  range: { from: dateTime(1_000_000), to: dateTime(1_060_000), raw: { from: 'now-1m', to: 'now' } },
  scopedVars: {},
  targets: [],
  timezone: 'utc',
  app: 'dashboard',
  startTime: 0,
});

describe('LeaderDatasource', () => {
  it('puts each value of a variable in as a name of its own', () => {
    const { datasource } = testDatasource({ targets: ['eu', 'us'], lock: 'a,b', none: [] });
    const query: LeaderQuery = { refId: 'A', queryType: 'terms', targets: ['$targets', 'asia'], databases: ['$none'], locks: ['$lock'] };
    expect(datasource.applyTemplateVariables(query, {})).toEqual({ ...query, targets: ['eu', 'us', 'asia'], databases: [], locks: ['a,b'] });
  });

  it('leaves a query without names as it is for all', () => {
    const { datasource } = testDatasource();
    expect(datasource.applyTemplateVariables({ refId: 'A' }, {})).toMatchObject({ targets: [], databases: [], locks: [] });
  });

  it('asks for handovers in annotations, whatever the stored type', () => {
    const { datasource } = testDatasource();
    const prepared = datasource.annotations.prepareQuery?.({
      name: 'x',
      enable: true,
      iconColor: 'red',
      target: { refId: 'Anno', queryType: 'terms', locks: ['l'] },
    });
    expect(prepared).toMatchObject({ queryType: 'annotations', locks: ['l'], refId: 'Anno' });
    expect(datasource.annotations.getDefaultQuery?.()).toEqual({ queryType: 'annotations' });
  });

  it('replaces the present state and adds changes', () => {
    const { datasource } = testDatasource();
    const options = (channel: string) =>
      datasource.streamOptionsProvider(request(100), { ...toDataFrame({ fields: [] }), meta: { channel } });
    expect(options('ds/uid/current/e30')).toEqual({ maxLength: 1000, action: StreamingFrameAction.Replace });
    expect(options('ds/uid/events/e30')).toEqual({ maxLength: 1000, maxDelta: 60_000, action: StreamingFrameAction.Append });
  });
});

describe('LeaderVariables', () => {
  it('answers with names, narrowed down by the others', async () => {
    const { datasource, getResource } = testDatasource({ target: 'eu' });
    const query: LeaderVariableQuery = { refId: 'V', kind: 'databases', targets: ['$target'] };
    const answer = await firstValueFrom(new LeaderVariables(datasource).query({ ...request(1), targets: [query] }));
    expect(answer.data).toEqual([{ text: 'plexsphere' }]);
    expect(getResource).toHaveBeenCalledWith('databases', { target: ['eu'], datname: [], lock: [] });
  });
});
