import type { DataSourceSettings } from '@grafana/data';
import { render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import React, { useState } from 'react';
import { describe, expect, it, vi } from 'vitest';

import { testDatasource } from '../test/datasource';
import type { JsonData, LeaderQuery, LeaderVariableQuery, SecureData } from '../types';
import { ConfigEditor } from './ConfigEditor';
import { AnnotationEditor, QueryEditor } from './QueryEditor';
import { VariableEditor } from './VariableEditor';

function renderQuery(first: Partial<LeaderQuery> = {}) {
  const changed = vi.fn<(query: LeaderQuery) => void>();
  const run = vi.fn();
  const { datasource } = testDatasource();
  function Panel() {
    const [query, setQuery] = useState<LeaderQuery>({ refId: 'A', ...first });
    return (
      <QueryEditor
        datasource={datasource}
        query={query}
        onRunQuery={run}
        onChange={(next) => {
          changed(next);
          setQuery(next);
        }}
      />
    );
  }
  render(<Panel />);
  return { changed, run };
}

describe('QueryEditor', () => {
  it('begins with the present state', () => {
    renderQuery();
    expect(screen.getByRole<HTMLInputElement>('radio', { name: 'Current' }).checked).toBe(true);
  });

  it('shows for each type what the type needs', async () => {
    const { changed, run } = renderQuery();
    const user = userEvent.setup();
    expect(screen.getByLabelText('Live')).toBeTruthy();
    await user.click(screen.getByRole('radio', { name: 'Stats' }));
    expect(changed).toHaveBeenLastCalledWith({ refId: 'A', queryType: 'stats' });
    expect(run).toHaveBeenCalledTimes(1);
    expect(screen.queryByLabelText('Live')).toBeNull();
    await user.click(screen.getByRole('radio', { name: 'Waiters' }));
    expect(changed).toHaveBeenLastCalledWith({ refId: 'A', queryType: 'stats', stat: 'waiters' });
    await user.click(screen.getByRole('radio', { name: 'Timeline' }));
    expect(screen.getByLabelText('Limit')).toBeTruthy();
    await user.click(screen.getByRole('radio', { name: 'Events' }));
    expect(screen.queryByLabelText('Limit')).toBeNull();
  });

  it('keeps the limit within what the backend takes', async () => {
    const { changed } = renderQuery({ queryType: 'terms' });
    const user = userEvent.setup();
    const limit = screen.getByLabelText('Limit');
    await user.type(limit, '99999');
    await user.tab();
    expect(changed).toHaveBeenLastCalledWith(expect.objectContaining({ limit: 10000 }));
    await user.clear(limit);
    await user.type(limit, '-3');
    await user.tab();
    expect(changed.mock.lastCall?.[0].limit).toBeUndefined();
  });

  it('switches live with the keyboard', async () => {
    const { changed } = renderQuery();
    screen.getByLabelText('Live').focus();
    await userEvent.setup().keyboard(' ');
    expect(changed).toHaveBeenLastCalledWith({ refId: 'A', live: true });
  });

  it('offers the names that the exporter has, and takes a variable', async () => {
    const { changed } = renderQuery();
    const user = userEvent.setup();
    await user.click(screen.getByRole('combobox', { name: 'Targets' }));
    await user.click(await screen.findByRole('option', { name: 'us' }));
    expect(changed).toHaveBeenLastCalledWith({ refId: 'A', targets: ['us'] });
    await user.type(screen.getByRole('combobox', { name: 'Locks' }), '$lock');
    await user.click(await screen.findByRole('option', { name: /\$lock/ }));
    await waitFor(() => expect(changed).toHaveBeenLastCalledWith({ refId: 'A', targets: ['us'], locks: ['$lock'] }));
  });

  it('has a name for each thing that can be used', () => {
    renderQuery({ queryType: 'terms' });
    for (const role of ['radio', 'combobox', 'spinbutton']) {
      const found = screen.getAllByRole(role);
      expect(screen.getAllByRole(role, { name: /./ })).toHaveLength(found.length);
    }
  });
});

describe('AnnotationEditor', () => {
  it('offers no type, since annotations are handovers, and has the limit', async () => {
    const changed = vi.fn<(query: LeaderQuery) => void>();
    const { datasource } = testDatasource();
    expect(datasource.annotations.QueryEditor).toBe(AnnotationEditor);
    render(<AnnotationEditor datasource={datasource} query={{ refId: 'Anno', queryType: 'terms' }} onChange={changed} onRunQuery={vi.fn()} />);
    expect(screen.queryByRole('radio')).toBeNull();
    const user = userEvent.setup();
    await user.type(screen.getByLabelText('Limit'), '7');
    await user.tab();
    expect(changed).toHaveBeenLastCalledWith(expect.objectContaining({ limit: 7 }));
  });
});

describe('VariableEditor', () => {
  it('chooses the kind, and narrows down by the others', async () => {
    const changed = vi.fn<(query: LeaderVariableQuery) => void>();
    const { datasource } = testDatasource();
    render(<VariableEditor datasource={datasource} query={{ refId: 'V', kind: 'locks' }} onChange={changed} onRunQuery={vi.fn()} />);
    expect(screen.queryByRole('combobox', { name: 'Locks' })).toBeNull();
    await userEvent.setup().click(screen.getByRole('radio', { name: 'Databases' }));
    expect(changed).toHaveBeenLastCalledWith({ refId: 'V', kind: 'databases' });
  });
});

describe('ConfigEditor', () => {
  const options: DataSourceSettings<JsonData, SecureData> = {
    id: 1,
    uid: 'uid',
    orgId: 1,
    name: 'Leader',
    typeLogoUrl: '',
    type: 'plexsphere-leader-datasource',
    typeName: 'Leader',
    access: 'proxy',
    url: '',
    user: '',
    database: '',
    basicAuth: false,
    basicAuthUser: '',
    isDefault: false,
    jsonData: {},
    secureJsonFields: {},
    readOnly: false,
    withCredentials: false,
  };

  it('takes the address', async () => {
    const changed = vi.fn();
    render(<ConfigEditor options={options} onOptionsChange={changed} />);
    await userEvent.setup().type(screen.getByPlaceholderText('http://leader-exporter:18861'), 'h');
    expect(changed).toHaveBeenLastCalledWith(expect.objectContaining({ url: 'h' }));
  });

  it('does not offer to forward an identity, which shared requests cannot carry', () => {
    render(<ConfigEditor options={options} onOptionsChange={vi.fn()} />);
    expect(screen.getByText('Basic auth')).toBeTruthy();
    expect(screen.queryByText(/Forward OAuth/)).toBeNull();
  });

  it('writes the token to what the browser cannot read back', async () => {
    const changed = vi.fn();
    const { rerender } = render(<ConfigEditor options={options} onOptionsChange={changed} />);
    const user = userEvent.setup();
    await user.type(screen.getByLabelText('Bearer token'), 't');
    expect(changed).toHaveBeenLastCalledWith(
      expect.objectContaining({ jsonData: {}, secureJsonData: { bearerToken: 't' }, secureJsonFields: { bearerToken: false } })
    );
    rerender(<ConfigEditor options={{ ...options, secureJsonFields: { bearerToken: true } }} onOptionsChange={changed} />);
    await user.click(screen.getByRole('button', { name: /reset/i }));
    expect(changed).toHaveBeenLastCalledWith(expect.objectContaining({ secureJsonData: { bearerToken: '' } }));
  });
});
