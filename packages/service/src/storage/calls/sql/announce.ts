import type { Database } from '../../databases/database.ts'

/** With the longest id on top it is still within the 8000 bytes that a notification can have. */
const partBytes = 7_000

/** Long enough to gather what ends together, short enough not to be felt by who waits in another process. */
const gatherMs = 5
/** For what only those can know of who look at all that runs; at once it would cost a tenth of a short call's time. */
const unhurriedMs = 250

/** There is nothing in it that would have to survive, so that nobody waits for the disk. */
const announceSql = `
  select pg_notify('gantry_done', part), set_config('synchronous_commit', 'off', true)
  from json_array_elements_text($1::json) as part`

/**
 * Tells those who listen which calls ended, some together and a moment after it. In the transaction of the outcome it
 * would make outcomes wait for each other's disk, because the server lets only one transaction at a time notify. What a
 * process does not tell because it dies is found by those who look for themselves.
 */
export function createAnnouncer(database: Database): Announcer {
  let gathered: string[] = []
  let timer: NodeJS.Timeout | undefined
  let hurried = false
  const flush = (): void => {
    const parts = JSON.stringify(inParts(gathered))
    gathered = []
    timer = undefined
    hurried = false
    database.query(announceSql, [parts]).catch(() => undefined)
  }
  const flushIn = (ms: number): void => {
    clearTimeout(timer)
    timer = setTimeout(flush, ms)
  }
  return (callIds, unhurried = []) => {
    gathered.push(...callIds, ...unhurried)
    if (callIds.length > 0 && !hurried) {
      hurried = true
      flushIn(gatherMs)
    } else if (gathered.length > 0 && timer === undefined) flushIn(unhurriedMs)
    // Nobody is kept waiting for what a process that ends does not tell.
    if (!hurried) timer?.unref()
  }
}

/** Takes calls that ended, and others of which it is enough to be told later. */
export type Announcer = (callIds: readonly string[], unhurried?: readonly string[]) => void

function inParts(callIds: readonly string[]): string[] {
  const parts: string[] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const callId of callIds) {
    bytes += Buffer.byteLength(callId) + 1
    if (bytes <= partBytes) parts.push(`${parts.pop()},${callId}`)
    else {
      parts.push(callId)
      bytes = Buffer.byteLength(callId)
    }
  }
  return parts
}
