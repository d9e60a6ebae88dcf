import type { PinStore, Pins } from './pin.ts'

/** Pins for as long as this process lives: a change is noticed while it runs, not between two runs. */
export function memoryPins(): PinStore {
  const kept = new Map<string, Pins>()
  return {
    load: async (source, signal) => {
      signal.throwIfAborted()
      return kept.get(source)
    },
    save: async (source, pins, signal) => {
      signal.throwIfAborted()
      kept.set(source, { ...kept.get(source), ...structuredClone(pins) })
    },
  }
}
