import { cleanup } from '@testing-library/react';
import { afterEach, vi } from 'vitest';

afterEach(cleanup);

// What jsdom lacks and the components of Grafana use.
Object.defineProperty(window, 'matchMedia', {
  value: () => ({ matches: false, addListener: vi.fn(), removeListener: vi.fn(), addEventListener: vi.fn(), removeEventListener: vi.fn() }),
});
class Observer {
  observe() {}
  unobserve() {}
  disconnect() {}
  takeRecords() {
    return [];
  }
}
Object.assign(globalThis, { ResizeObserver: Observer, IntersectionObserver: Observer });
// jsdom lays nothing out, and a list that shows what fits its height would show nothing.
vi.mock('@tanstack/react-virtual', () => ({
  useVirtualizer: ({ count }: { count: number }) => ({
    getTotalSize: () => 40 * count,
    getVirtualItems: () => Array.from({ length: count }, (_, index) => ({ index, key: index, size: 40, start: 40 * index })),
    scrollToIndex: () => undefined,
  }),
}));
Object.defineProperty(HTMLCanvasElement.prototype, 'getContext', {
  value: () => ({ measureText: (text: string) => ({ width: 8 * text.length }) }),
});
