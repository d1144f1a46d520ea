import type { DataSourcePluginOptionsEditorProps } from '@grafana/data';
import { DataSourceHttpSettings, InlineField, SecretInput } from '@grafana/ui';
import { config } from '@grafana/runtime';
import React, { useId } from 'react';

import type { JsonData, SecureData } from '../types';

export type Props = DataSourcePluginOptionsEditorProps<JsonData, SecureData>;

/** ConfigEditor has the address of the exporter, and what its server asks for. */
export function ConfigEditor({ options, onOptionsChange }: Props) {
  const id = useId();
  const setToken = (bearerToken: string, isSet: boolean) =>
    onOptionsChange({
      ...options,
      secureJsonFields: { ...options.secureJsonFields, bearerToken: isSet },
      secureJsonData: { ...options.secureJsonData, bearerToken },
    });
  return (
    <>
      <DataSourceHttpSettings
        defaultUrl="http://leader-exporter:18861"
        urlDocs="Address of leader-exporter. It may have a path, behind a proxy."
        dataSourceConfig={options}
        onChange={onOptionsChange}
        // Equal requests of different people are one, so that none can carry a person's identity.
        showForwardOAuthIdentityOption={false}
        secureSocksDSProxyEnabled={config.secureSocksDSProxyEnabled}
      />
      <InlineField label="Bearer token" labelWidth={26} htmlFor={`${id}-token`} tooltip="Sent as Authorization: Bearer, where a proxy asks for it.">
        <SecretInput
          id={`${id}-token`}
          width={40}
          isConfigured={options.secureJsonFields.bearerToken ?? false}
          value={options.secureJsonData?.bearerToken ?? ''}
          onChange={(e) => setToken(e.currentTarget.value, false)}
          onReset={() => setToken('', false)}
        />
      </InlineField>
    </>
  );
}
