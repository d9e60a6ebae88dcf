import type { PinStore, Pins } from './pin.ts'

/** Pins in the memory of this process: a change is detected within one run, not between two runs. */
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
