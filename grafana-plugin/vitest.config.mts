import { defineConfig } from 'vitest/config';

export default defineConfig({
  esbuild: { jsx: 'transform' },
  test: {
    environment: 'jsdom',
    setupFiles: ['src/test/setup.ts'],
    include: ['src/**/*.test.{ts,tsx}'],
    // The packages of Grafana import files that Node alone cannot.
    server: { deps: { inline: [/@grafana\//] } },
    testTimeout: 20_000,
    silent: 'passed-only',
    // One process for both files: to load the packages is most of the time.
    isolate: false,
    fileParallelism: false,
  },
});
