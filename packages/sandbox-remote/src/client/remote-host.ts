import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { meets, type Sandbox, type SandboxSpec, stronger } from '@gantry/core/internal/runtimes/runtime'
import {
  type HostState,
  jsonBytes,
  type OfferedRuntime,
  protocolVersion,
  readHostState,
  readOffers,
  readOpened,
} from '../protocol/documents.ts'
import { ConnectionLost, type HostClient, HostRefusal, type HostRequest } from './host-client.ts'
import { runRemotely } from './remote-run.ts'

/**
 * ## One host
 *
 * | state      | entered when                                                        | left by                               |
 * | ---------- | ------------------------------------------------------------------- | ------------------------------------- |
 * | `ready`    | it answered                                                         | a failure; an answer that says it drains |
 * | `unavailable` | it could not be reached, is full, or does not accept the key        | a time that doubles with each failure |
 * | `draining` | it says that it is shutting down                                    | the answer of the next started server |
 */
export interface RemoteHost {
  /** `host:port`, for messages. */
  readonly name: string
  /** Its runtimes; undefined before the first probe that it answered. */
  readonly offers: readonly OfferedRuntime[] | undefined
  readonly availability: 'ready' | 'unavailable' | 'draining'
  /** Open sandboxes for each that may be, those included that this process is opening. */
  readonly load: number
  /** Asks for its runtimes. Rejects as `HostClient` does. */
  probe(signal: AbortSignal): Promise<readonly OfferedRuntime[]>
  /**
   * Opens a sandbox there.
   * - Errors: ConnectionLost and HostRefusal, with which another host may be tried; ToolErrors of its runtimes.
   */
  open(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** Ends all sandboxes of this process on the host. */
  close(): Promise<void>
}

const stateMs = 10_000
/** The first probe of a host starts and attacks all of its runtimes. */
const probeMs = 120_000
const openMs = 90_000
const removeMs = 30_000
/** Longest time between two heartbeats; the host reports how long it keeps a sandbox without one. */
const longestBeatMs = 8_000
/** Outcomes that arrived are reported together. */
const doneMs = 200
const mostAttempts = 6
const firstPauseMs = 10
const [firstBackoffMs, longestBackoffMs] = [1_000, 30_000]

interface Open {
  readonly id: string
  readonly instance: string
  readonly keepMs: number
  readonly finish: () => void
}

export function createRemoteHost(
  name: string,
  client: HostClient,
  now: () => number = () => performance.now(),
): RemoteHost {
  const open = new Map<string, Open>()
  const closing = new AbortController()
  let state: HostState | undefined
  let offers: readonly OfferedRuntime[] | undefined
  let [opening, failures, retryAt] = [0, 0, 0]
  let done: Open[] = []
  let beat: NodeJS.Timeout | undefined

  /** Repeats a request whose connection was cut; each names what it is about by an id, so that it is done once. */
  const ask = async (request: HostRequest, signal: AbortSignal): Promise<unknown> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await client.ask(request, signal)
      } catch (error) {
        if (!(error instanceof ConnectionLost) || !error.isSent || attempt === mostAttempts || signal.aborted)
          throw error
        await delay(firstPauseMs * 2 ** attempt, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    }
  }
  const backOff = (): void => {
    retryAt = now() + Math.min(longestBackoffMs, firstBackoffMs * 2 ** Math.min(failures, 20))
    failures += 1
  }
  const learn = (found: unknown): HostState => {
    const read = readHostState(found)
    if (read === undefined)
      throw new ToolError(
        'BACKEND_FAILED',
        `The host ${name} sent an invalid response; check that both run the same version of Gantry.`,
      )
    if (read.protocol !== protocolVersion) {
      const message = `The host ${name} uses version ${read.protocol} of the protocol, this process ${protocolVersion}; install the same version of Gantry.`
      throw new ToolError('RUNTIME_UNAVAILABLE', message)
    }
    // What a server that was restarted does not have any more has ended.
    for (const each of open.values()) if (each.instance !== read.instance) finish(each)
    if (state?.instance !== read.instance) offers = undefined
    state = read
    failures = 0
    retryAt = 0
    return read
  }
  const current = async (signal: AbortSignal): Promise<HostState> =>
    state ?? learn(await ask({ method: 'GET', path: '/v1/host', timeoutMs: stateMs }, signal))
  const finish = (each: Open): void => {
    open.delete(each.id)
    each.finish()
  }
  const heartbeat = async (): Promise<void> => {
    beat = undefined
    const { instance } = state ?? {}
    if (instance === undefined) return
    const [sandboxes, finished] = [[...open.keys()], done.filter((each) => each.instance === instance)]
    done = []
    try {
      const body = jsonBytes({ sandboxes, done: finished.map(({ id }) => id) })
      const request = { method: 'POST', path: '/v1/heartbeat', instance, body, timeoutMs: stateMs } as const
      const answer = await client.ask(request, closing.signal)
      learn(answer)
      const ended = isObject(answer) && Array.isArray(answer.ended) ? answer.ended : []
      for (const id of ended) {
        const gone = open.get(id)
        if (gone !== undefined) finish(gone)
      }
    } catch (error) {
      if (error instanceof HostRefusal && error.code === 'INSTANCE_CHANGED') state = undefined
    }
    if (open.size > 0) schedule(beatMs())
  }
  const beatMs = (): number => Math.min(longestBeatMs, (state?.keepMs ?? longestBeatMs) / 4)
  const schedule = (ms: number): void => {
    if (closing.signal.aborted) return
    clearTimeout(beat)
    beat = setTimeout(() => void heartbeat(), ms).unref()
  }
  /** Removes a sandbox; the host does it by itself after some time without a heartbeat, so a failure is no error. */
  const remove = async ({ id, instance }: Open): Promise<void> => {
    const request = { method: 'DELETE', path: `/v1/sandboxes/${id}`, instance, timeoutMs: removeMs } as const
    await ask(request, AbortSignal.timeout(removeMs)).catch(() => undefined)
  }
  const sandboxOf = (
    each: Open,
    ended: Promise<void>,
    within: NonNullable<Sandbox['within']>,
    spec: SandboxSpec,
  ): Sandbox => {
    let [runs, disposed]: [number, Promise<void> | undefined] = [0, undefined]
    const dispose = async (): Promise<void> => {
      if (open.has(each.id)) await remove(each)
      finish(each)
    }
    const end = (): Promise<void> => {
      disposed ??= dispose()
      return disposed
    }
    return {
      id: each.id,
      ended,
      within,
      async run(job, signal) {
        if (runs > 0 && spec.session !== true) throw new ToolError('INTERNAL', 'A sandbox runs one program only.')
        signal.throwIfAborted()
        runs += 1
        const path = `/v1/sandboxes/${each.id}/runs/${runs}`
        const { instance, keepMs } = each
        try {
          const found = await runRemotely(
            { client, host: name, instance, path, limits: spec.limits, keepMs },
            job,
            signal,
          )
          if (found.kind === 'error') throw found.error
          if (found.alive) return found.outcome
          // The host has removed it; what it keeps of the run is no longer needed.
          finish(each)
          done.push(each)
          schedule(doneMs)
          return found.outcome
        } catch (error) {
          await end()
          throw error
        }
      },
      dispose: end,
    }
  }
  const openOnce = async (spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    const { instance, keepMs } = await current(signal)
    const { network, dial, ...wire } = spec
    const id = randomBytes(12).toString('base64url')
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    const each: Open = { id, instance, keepMs, finish: resolve }
    const request = {
      method: 'PUT',
      path: `/v1/sandboxes/${id}`,
      instance,
      body: jsonBytes(wire),
      timeoutMs: openMs,
    } as const
    try {
      const found = await ask(request, signal)
      const within = readOpened(found)
      if (within === undefined)
        throw new ToolError(
          'BACKEND_FAILED',
          `The host ${name} sent an invalid response; check that both run the same version of Gantry.`,
        )
      const floor = stronger(spec.floor ?? 'none', 'wasm')
      if (!meets(within.isolation, floor)) {
        const message = `The host ${name} opened a sandbox of isolation ${within.isolation}, and at least ${floor} is required.`
        throw new ToolError('RUNTIME_UNAVAILABLE', message, { retryable: false })
      }
      open.set(id, each)
      if (beat === undefined) schedule(beatMs())
      return sandboxOf(each, ended, within, spec)
    } catch (error) {
      if (!(error instanceof HostRefusal)) void remove(each)
      throw error
    }
  }
  return {
    name,
    get offers() {
      return offers
    },
    get availability() {
      if (now() < retryAt) return 'unavailable'
      return state?.draining === true ? 'draining' : 'ready'
    },
    get load() {
      const { open: theirs = 0, capacity = 1 } = state ?? {}
      // What the host reported may be older than what this process opened since.
      return (Math.max(theirs, open.size) + opening) / Math.max(1, capacity)
    },
    async probe(signal) {
      try {
        const answer = await ask({ method: 'GET', path: '/v1/runtimes', timeoutMs: probeMs }, signal)
        learn(answer)
        offers = readOffers(answer)
        if (offers === undefined)
          throw new ToolError(
            'BACKEND_FAILED',
            `The host ${name} sent an invalid response; check that both run the same version of Gantry.`,
          )
        return offers
      } catch (error) {
        if (!signal.aborted) backOff()
        throw error
      }
    },
    async open(spec, signal) {
      opening += 1
      try {
        return await openOnce(spec, signal).catch((error: unknown) => {
          if (!(error instanceof HostRefusal) || error.code !== 'INSTANCE_CHANGED') throw error
          state = undefined
          return openOnce(spec, signal)
        })
      } catch (error) {
        if (error instanceof ConnectionLost) state = undefined
        if (error instanceof HostRefusal && error.code === 'DRAINING' && state !== undefined) {
          state = { ...state, draining: true }
        }
        if (error instanceof ConnectionLost || error instanceof HostRefusal) backOff()
        throw error
      } finally {
        opening -= 1
      }
    },
    async close() {
      clearTimeout(beat)
      await Promise.all([...open.values()].map((each) => remove(each).then(() => finish(each))))
      const { instance } = state ?? {}
      if (done.length > 0 && instance !== undefined) await heartbeat()
      closing.abort(new ToolError('RUNTIME_UNAVAILABLE', 'The remote runtime is closed.'))
      client.close()
    },
  }
}
