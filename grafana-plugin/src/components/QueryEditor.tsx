import type { QueryEditorProps } from '@grafana/data';
import { InlineField, InlineFieldRow, InlineSwitch, Input, RadioButtonGroup } from '@grafana/ui';
import React, { useId, type FocusEvent } from 'react';

import type { LeaderDatasource } from '../datasource';
import type { LeaderQuery, QueryType, Stat } from '../types';
import { FilterFields } from './FilterFields';

export type Props = QueryEditorProps<LeaderDatasource, LeaderQuery>;

const types: Array<{ value: QueryType; label: string; description: string }> = [
  { value: 'current', label: 'Current', description: 'Who holds each lock now: a table' },
  { value: 'terms', label: 'Terms', description: 'Who held which lock from when to when: a table' },
  { value: 'timeline', label: 'Timeline', description: 'For the state timeline: holders, no leader, unknown' },
  { value: 'stats', label: 'Stats', description: 'A number for each lock: for alert rules' },
  { value: 'annotations', label: 'Handovers', description: 'Begins of terms, and times without leader' },
  { value: 'events', label: 'Events', description: 'Changes as they come, by Grafana Live' },
];

const stats: Array<{ value: Stat; label: string; description?: string }> = [
  { value: 'holders', label: 'Holders' },
  { value: 'waiters', label: 'Waiters' },
  { value: 'heartbeat_age_seconds', label: 'Heartbeat age' },
  { value: 'all', label: 'All', description: 'Not for an alert rule, which wants one number for each lock' },
];

const maxLimit = 10000;

/** AnnotationEditor is the editor of annotations, which are always handovers. */
export function AnnotationEditor(props: Props) {
  return <QueryEditor {...props} fixedType="annotations" />;
}

/** QueryEditor is the editor of panels, alert rules and Explore. */
export function QueryEditor({ datasource, query, onChange, onRunQuery, fixedType }: Props & { fixedType?: QueryType }) {
  const id = useId();
  const type = fixedType ?? query.queryType ?? 'current';
  const change = (part: Partial<LeaderQuery>) => {
    onChange({ ...query, ...part });
    onRunQuery();
  };
  const changeLimit = ({ currentTarget }: FocusEvent<HTMLInputElement>) => {
    const limit = Math.round(Number(currentTarget.value));
    change({ limit: limit > 0 ? Math.min(limit, maxLimit) : undefined });
  };
  return (
    <>
      {!fixedType && (
        <InlineFieldRow>
          <InlineField label="Type" labelWidth={14}>
            <RadioButtonGroup aria-label="Type" options={types} value={type} onChange={(queryType) => change({ queryType })} />
          </InlineField>
        </InlineFieldRow>
      )}
      <InlineFieldRow>
        <FilterFields datasource={datasource} filter={query} onChange={change} />
      </InlineFieldRow>
      <InlineFieldRow>
        {type === 'stats' && (
          <InlineField label="Number" labelWidth={14}>
            <RadioButtonGroup aria-label="Number" options={stats} value={query.stat ?? 'holders'} onChange={(stat) => change({ stat })} />
          </InlineField>
        )}
        {type === 'current' && (
          <InlineField label="Live" labelWidth={14} htmlFor={`${id}-live`} tooltip="Show changes as they happen, by Grafana Live.">
            <InlineSwitch id={`${id}-live`} value={query.live ?? false} onChange={(e) => change({ live: e.currentTarget.checked })} />
          </InlineField>
        )}
        {(type === 'terms' || type === 'timeline' || type === 'annotations') && (
          <InlineField label="Limit" labelWidth={14} htmlFor={`${id}-limit`} tooltip={`The newest so many terms, at most ${maxLimit}.`}>
            <Input
              id={`${id}-limit`}
              type="number"
              min={1}
              max={maxLimit}
              width={14}
              placeholder={type === 'terms' ? '1000' : '5000'}
              defaultValue={query.limit}
              onBlur={changeLimit}
            />
          </InlineField>
        )}
      </InlineFieldRow>
    </>
  );
}
