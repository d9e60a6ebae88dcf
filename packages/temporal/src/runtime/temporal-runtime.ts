import { randomBytes } from 'node:crypto'
import { type Isolation, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { follow } from '@gantry/core/internal/resilience/abort'
import {
  isolations,
  meets,
  type Probe,
  type Refusal,
  type Runtime,
  type Sandbox,
  type SandboxSpec,
  stronger,
} from '@gantry/core/internal/runtimes/runtime'
import { inAll, lackOf } from '@gantry/sandbox-remote/internal/client/remote'
import { type OfferedRuntime, readOffers } from '@gantry/sandbox-remote/internal/protocol/documents'
import { queueOf, type TemporalClient } from '../connection/connect.ts'
import { resultOf, startOnce } from '../connection/execution.ts'
import { offersWorkflow } from '../protocol/sandbox.ts'
import { type RunTimes, runOverTemporal } from './run.ts'

/** The first probe of a worker starts and attacks all of its runtimes. */
const probeMs = 50_000
/** A worker polls all the time, so that one that does not come soon is not there. */
const offersQueueMs = 5_000
const usualTimes: RunTimes = { queueMs: 30_000, heartbeatMs: 10_000 }
/** Memory of a waiting sandbox in this process; there is none elsewhere before it runs. */
const idleBytes = 4_096

/**
 * Runs programs on workers of Temporal: each is a workflow with one activity, which opens a sandbox of the worker's own
 * runtimes. The isolation is that of the runtime which the worker selects, never below the floor.
 * - Concurrency: any number of sandboxes.
 * - Cancellation: cancels the workflow; the worker kills all processes of the sandbox with its next heartbeat.
 * - Errors: OUTCOME_UNKNOWN for a program whose worker was lost; it is never run twice.
 */
export function createTemporalRuntime(find: () => Promise<TemporalClient>, times: Partial<RunTimes> = {}): Runtime {
  const used = { ...usualTimes, ...times }
  const closing = new AbortController()
  const running = new Set<Promise<unknown>>()
  let offers: readonly OfferedRuntime[] = []
  const sandboxOf = (spec: SandboxSpec): Sandbox => {
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    const stop = new AbortController()
    let work: Promise<unknown> | undefined
    let within: Sandbox['within']
    return {
      id: randomBytes(9).toString('base64url'),
      ended,
      get within() {
        return within
      },
      async run(job, given) {
        if (work !== undefined) throw new ToolError('INTERNAL', 'A sandbox runs one program only.')
        given.throwIfAborted()
        const { signal, leave } = follow(given, stop.signal)
        const run = find().then((client) => runOverTemporal(client, spec, job, used, signal))
        work = run
        running.add(run)
        try {
          const end = await run
          const floor = stronger(spec.floor ?? 'none', 'wasm')
          if (!meets(end.within.isolation, floor)) {
            const message = `The Temporal worker ran the program with the isolation ${end.within.isolation}, and at least ${floor} is required.`
            throw new ToolError('BACKEND_FAILED', message)
          }
          within = end.within
          return end.outcome
        } finally {
          leave()
          running.delete(run)
          resolve()
        }
      },
      async dispose() {
        stop.abort(new ToolError('CANCELLED', 'The sandbox was ended.'))
        await work?.catch(() => undefined)
        resolve()
      },
    }
  }
  return {
    kind: 'temporal',
    elsewhere: true,
    cost: 60,
    programs: ['code', 'argv', 'script'],
    idleBytes: () => idleBytes,
    get isolation() {
      return offers.reduce<Isolation>((best, { isolation }) => stronger(isolation, best), 'none')
    },
    async probe(signal) {
      try {
        const client = await find()
        const found = await askOffers(client, signal)
        const before = performance.now()
        offers = await askOffers(client, signal)
        return probeOf(found, performance.now() - before)
      } catch (error) {
        signal.throwIfAborted()
        const reason = ToolError.is(error) ? error.message : 'Temporal did not answer.'
        const remedy = 'Start `gantry worker temporal` with the same address, namespace, taskQueue and payloadKey.'
        return { available: false, reason, remedy }
      }
    },
    refuses(spec) {
      const own = ownRefusal(spec)
      if (own !== undefined || offers.length === 0) return own
      const lacks = offers.map((one) => lackOf(one, spec))
      return lacks.includes(undefined) ? undefined : lacks[0]
    },
    async open(spec, signal) {
      signal.throwIfAborted()
      if (closing.signal.aborted)
        throw new ToolError('RUNTIME_UNAVAILABLE', 'The temporal runtime is closed.', { retryable: false })
      const own = ownRefusal(spec)
      if (own !== undefined)
        throw new ToolError('RUNTIME_UNAVAILABLE', `${own.reason} ${own.remedy}`, { retryable: false })
      return sandboxOf(spec)
    },
    async close() {
      closing.abort()
      await Promise.allSettled(running)
      const client = await find().catch(() => undefined)
      await client?.close()
    },
  }
}

/** What no worker changes: an activity has one request and one answer. */
function ownRefusal({ network, session, gateway }: SandboxSpec): Refusal | undefined {
  if (network !== 'none') {
    return {
      reason:
        'A program on a Temporal worker gets no network, because the egress policy and its guard are in this process.',
      remedy: 'Ask for no network, or use a local runtime.',
    }
  }
  if (session === true) {
    return {
      reason: 'A session keeps an interpreter, and an activity of Temporal ends with its program.',
      remedy: 'Use the runtime remote, or a local one.',
    }
  }
  if (gateway !== true) return undefined
  return {
    reason:
      'A program over tools asks its host while it runs, and an activity of Temporal has one request and one answer.',
    remedy: "Hand the whole program to Temporal with `engine: 'temporal'`, or use another runtime.",
  }
}

async function askOffers(source: TemporalClient, signal: AbortSignal): Promise<readonly OfferedRuntime[]> {
  const client = await source.get()
  const { handle } = await startOnce(client, offersWorkflow, {
    workflowId: `gantry-offers-${randomBytes(12).toString('base64url')}`,
    taskQueue: queueOf(source.target, 'sandboxes'),
    args: [offersQueueMs, probeMs],
    workflowExecutionTimeout: offersQueueMs + probeMs,
    // Without a worker not even the workflow begins.
    workflowTaskTimeout: 5_000,
  })
  const late = AbortSignal.timeout(offersQueueMs + probeMs)
  const found = await resultOf(handle, offersQueueMs + probeMs, AbortSignal.any([signal, late])).catch(
    (cause: unknown) => {
      throw new ToolError('RUNTIME_UNAVAILABLE', 'No Temporal worker answered.', { cause })
    },
  )
  const offers = readOffers(found)
  if (offers !== undefined) return offers
  const message =
    isObject(found) && found.failed === 'queued'
      ? 'No Temporal worker offers sandboxes.'
      : 'A Temporal worker answered with what this process cannot read; compare payloadKey and the versions on both sides.'
  throw new ToolError('RUNTIME_UNAVAILABLE', message)
}

function probeOf(found: readonly OfferedRuntime[], tripMs: number): Probe {
  // The strongest first: its attacks are those that are shown.
  const sorted = found.toSorted((one, other) => isolations.indexOf(other.isolation) - isolations.indexOf(one.isolation))
  const [first] = sorted
  if (first === undefined) {
    const remedy = 'Look at `gantry doctor` on the worker.'
    return { available: false, reason: 'The Temporal worker has no runtime that works.', remedy }
  }
  return {
    available: true,
    version: `${[...new Set(sorted.map(({ kind }) => kind))].join(', ')} on workers of Temporal`,
    startMs: Math.round((Math.min(...sorted.map(({ startMs }) => startMs)) + tripMs) * 100) / 100,
    limits: inAll(sorted),
    languages: [...new Set(sorted.flatMap(({ languages }) => languages))],
    attacks: first.attacks,
  }
}
