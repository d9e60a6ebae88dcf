import { constants } from 'node:os'

const names = new Map(Object.entries(constants.signals).map(([name, number]) => [number as number, name]))

/** `SIGKILL` for 9; real-time signals, which Node does not name, as `SIG34`. */
export function signalName(number: number): string {
  return names.get(number) ?? `SIG${number}`
}
