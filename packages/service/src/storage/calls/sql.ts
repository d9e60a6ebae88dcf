import type { Database } from '../databases/database.ts'
import type { CallStore } from './call-store.ts'
import { createAheadLine } from './sql/ahead.ts'
import { createAnnouncer } from './sql/announce.ts'
import { begin } from './sql/begin.ts'
import { cancel } from './sql/cancel.ts'
import { claim } from './sql/claim.ts'
import { depth, waiting } from './sql/depth.ts'
import { extend } from './sql/extend.ts'
import { finish } from './sql/finish.ts'
import { offer } from './sql/offer.ts'
import { outcomes } from './sql/outcomes.ts'
import { reclaim } from './sql/reclaim.ts'
import { release } from './sql/release.ts'
import { resume } from './sql/resume.ts'
import { flush, known, submit } from './sql/submit.ts'

/**
 * Calls in a database, PGlite or PostgreSQL; its tables are there already. Each operation is one statement, so one round
 * trip and one commit; the few that need a second one say why.
 * `answers` are the brokers over which this process answers the calls that it ends.
 * - Ownership: the database stays the caller's.
 */
export function sqlCallStore(database: Database, answers: readonly string[] = []): CallStore {
  const announce = createAnnouncer(database)
  const turns = { after: '' }
  const ahead = createAheadLine(database)
  return {
    submit: (calls, options, how) => submit(database, calls, options, how?.unflushed),
    ...(database.line === undefined ? {} : { submitAhead: ahead.submit, entering: ahead.entering }),
    flush: (callId) => flush(database, callId),
    known: (call) => known(database, call),
    claim: (max, options) => claim(database, max, options, turns),
    begin: (holders) => begin(database, holders),
    extend: (holders, leaseMs) => extend(database, holders, leaseMs),
    release: (holders) => release(database, holders),
    resume: (callId) => resume(database, callId),
    offer: (needs, max) => offer(database, needs, max),
    async finish(endings) {
      const accepted = await ahead.finish(endings, (queries) => finish(queries, endings, answers))
      const awaited = new Set(endings.flatMap((ending) => (ending.awaited?.() === true ? [ending.callId] : [])))
      announce(
        accepted.filter((callId) => !awaited.has(callId)),
        accepted.filter((callId) => awaited.has(callId)),
      )
      return accepted
    },
    outcomes: (holders) => outcomes(database, holders),
    async reclaim(options) {
      const reclaimed = await reclaim(database, options)
      announce(reclaimed.expired)
      return reclaimed
    },
    async cancel(callId, tenant) {
      const fate = await cancel(database, callId, tenant)
      if (fate === 'ended') announce([callId])
      return fate
    },
    depth: (most) => depth(database, most),
    waiting: (tenant, most) => waiting(database, tenant, most),
  }
}
