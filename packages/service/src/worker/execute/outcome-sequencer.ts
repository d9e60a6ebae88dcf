import type { InnerOutcome } from '@gantry/core'
import type { OrderedWriter } from './ordered-writer.ts'
import { textOf } from './program-entries.ts'

export interface JournaledOutcome {
  readonly outcome: InnerOutcome
  readonly atMs: number
}

/** Puts what came of the questions of a program into the order in which it hears of them, here and in every later attempt. */
export interface OutcomeSequencer {
  /**
   * Numbers and writes an outcome at once. Resolves when the program may hear of it: not before those with lower numbers,
   * and only when it is durable, unless it may be told early.
   */
  add(entry: string, outcome: InnerOutcome, early: boolean): Promise<JournaledOutcome>
}

/** So many entries may be told and not yet durable; who reads faster than the store writes waits for it. */
const mostAhead = 100

export function createOutcomeSequencer(
  writer: OrderedWriter,
  { nextSeq, lastMs, now }: { readonly nextSeq: number; readonly lastMs: number; readonly now: () => number },
): OutcomeSequencer {
  let seq = nextSeq
  let time = lastMs
  let line: { ready: boolean; readonly tell: () => void }[] = []

  const advance = (): void => {
    const waiting = line.findIndex(({ ready }) => !ready)
    const next = waiting < 0 ? line : line.slice(0, waiting)
    line = line.slice(next.length)
    for (const { tell } of next) tell()
  }
  return {
    add(entry, outcome, early) {
      time = Math.max(time, now())
      const telling = { outcome, atMs: time }
      const told = Promise.withResolvers<JournaledOutcome>()
      const place = { ready: early && writer.waiting < mostAhead, tell: () => told.resolve(telling) }
      line.push(place)
      writer.add({ entry, result: textOf({ seq, atMs: time, outcome }) }).then(() => {
        place.ready = true
        advance()
      }, told.reject)
      seq += 1
      advance()
      return told.promise
    },
  }
}
