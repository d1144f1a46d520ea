import type { QueryEditorProps } from '@grafana/data';
import { InlineField, InlineFieldRow, RadioButtonGroup } from '@grafana/ui';
import React from 'react';

import type { LeaderDatasource } from '../datasource';
import type { JsonData, LeaderQuery, LeaderVariableQuery, NameKind } from '../types';
import { FilterFields } from './FilterFields';

export type Props = QueryEditorProps<LeaderDatasource, LeaderQuery, JsonData, LeaderVariableQuery>;

const kinds: Array<{ value: NameKind; label: string }> = [
  { value: 'targets', label: 'Targets' },
  { value: 'databases', label: 'Databases' },
  { value: 'locks', label: 'Locks' },
];

/** VariableEditor chooses which names a template variable has, and what narrows them down. */
export function VariableEditor({ datasource, query, onChange }: Props) {
  const kind = query.kind ?? 'targets';
  return (
    <>
      <InlineFieldRow>
        <InlineField label="Names of" labelWidth={14}>
          <RadioButtonGroup aria-label="Names of" options={kinds} value={kind} onChange={(chosen) => onChange({ ...query, kind: chosen })} />
        </InlineField>
      </InlineFieldRow>
      <InlineFieldRow>
        <FilterFields
          datasource={datasource}
          filter={query}
          kinds={kinds.map(({ value }) => value).filter((value) => value !== kind)}
          onChange={(filter) => onChange({ ...query, ...filter })}
        />
      </InlineFieldRow>
    </>
  );
}
