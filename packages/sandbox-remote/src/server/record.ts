import type { HeldEvent } from './held-sandboxes.ts'

/** One entry of the record of a runtime server. It holds no key, code or output. */
export type ServerRecord = { readonly time: string } & (
  | HeldEvent
  | {
      readonly event: 'refused'
      readonly code: string
      readonly reason: string
      /** The id of the key that the request named, whether it signed it or not. */
      readonly key?: string
      readonly address: string
      readonly method: string
      readonly path: string
      /** Refusals before this one that were not recorded, because there were too many. */
      readonly unrecorded?: number
    }
)

/** Without the time, which the recorder adds. */
export type RecordEntry<R = ServerRecord> = R extends unknown ? Omit<R, 'time'> : never

/** Refusals that are recorded in a second; a flood of them must not fill the disk. */
const mostRefusals = 100
const longestText = 256

export function createRecorder(
  write: (record: ServerRecord) => void,
  now: () => number = Date.now,
): (entry: RecordEntry) => void {
  let [second, count, unrecorded] = [0, 0, 0]
  return (entry) => {
    const at = now()
    const time = new Date(at).toISOString()
    if (entry.event !== 'refused') return write({ time, ...entry })
    if (Math.floor(at / 1_000) !== second) [second, count] = [Math.floor(at / 1_000), 0]
    if (count >= mostRefusals) {
      unrecorded += 1
      return
    }
    count += 1
    const { key, path } = entry
    const clipped = { path: path.slice(0, longestText), ...(key === undefined ? {} : { key: key.slice(0, 64) }) }
    write({ time, ...entry, ...clipped, ...(unrecorded === 0 ? {} : { unrecorded }) })
    unrecorded = 0
  }
}
