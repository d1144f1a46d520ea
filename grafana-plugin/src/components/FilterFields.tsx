import { InlineField, InlineLabel, MultiCombobox } from '@grafana/ui';
import React, { useId } from 'react';

import type { LeaderDatasource } from '../datasource';
import type { Filter, NameKind } from '../types';

interface Props {
  datasource: LeaderDatasource;
  filter: Filter;
  kinds?: readonly NameKind[];
  onChange: (filter: Filter) => void;
}

const everyKind: readonly NameKind[] = ['targets', 'databases', 'locks'];
const labels: Record<NameKind, string> = { targets: 'Targets', databases: 'Databases', locks: 'Locks' };

/** FilterFields chooses names of targets, databases and locks; a variable may be typed in. */
export function FilterFields({ datasource, filter, kinds = everyKind, onChange }: Props) {
  const id = useId();
  return (
    <>
      {kinds.map((kind) => (
        <InlineField
          key={kind}
          label={
            // The box knows the label by its id alone.
            <InlineLabel id={`${id}-${kind}`} width={14} tooltip="None is all of them. A name or a variable can be typed in.">
              {labels[kind]}
            </InlineLabel>
          }
        >
          <MultiCombobox
            aria-labelledby={`${id}-${kind}`}
            width={40}
            placeholder="All"
            createCustomValue
            value={filter[kind] ?? []}
            options={async (typed) => {
              const names = await datasource.names(kind, { ...filter, [kind]: [] }).catch((): string[] => []);
              return names.filter((name) => name.includes(typed)).map((value) => ({ value, label: value }));
            }}
            onChange={(chosen) => onChange({ ...filter, [kind]: chosen.map(({ value }) => value) })}
          />
        </InlineField>
      ))}
    </>
  );
}
