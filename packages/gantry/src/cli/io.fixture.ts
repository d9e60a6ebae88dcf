import type { Io } from './io.ts'

/** An Io that keeps what is printed. */
export interface KeptIo extends Io {
  readonly printed: { out: string; err: string }
}

export function keptIo(changes: Partial<Io> = {}): KeptIo {
  const printed = { out: '', err: '' }
  return {
    printed,
    async out(text) {
      printed.out += text
    },
    err(text) {
      printed.err += text
    },
    watched: false,
    columns: 80,
    environment: {},
    folder: import.meta.dirname,
    readInput: async () => '',
    askSecret: async () => '',
    signal: new AbortController().signal,
    endOnUncaught() {},
    ...changes,
  }
}
