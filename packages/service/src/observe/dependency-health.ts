import { type DependencyView, ToolError } from '@gantry/contract'
import type { Bus } from './bus.ts'

/**
 * The health of each dependency of this process; readiness, gauges and the view for operators read it.
 * * States of a dependency, and the causes of their transitions.
 *
 * With a probe:
 * - up → down: a probe fails or times out; or an operation fails several times in a row although the probe works, as on
 *   a disk with space only for a heartbeat
 * - down → up: a probe succeeds; the operation succeeds; or its last failure is a second old for each failure after the
 *   first, at most `longestDoubtMs`
 * - down and unresponsive: a probe timed out and none was answered since
 *
 * A failed operation runs the probe at once.
 *
 * Without a probe:
 * - up → down: an operation fails
 * - down → up: the operation succeeds
 */
export interface DependencyHealth {
  list(): readonly DependencyView[]
  isUp(dependency: string): boolean
  /** Whether a probe timed out and none was answered since, so that operations hang. */
  isUnresponsive(dependency: string): boolean
  /** Calls `listener` when a dependency becomes unresponsive; returns the function that removes the listener. */
  onUnresponsive(dependency: string, listener: () => void): () => void
  /**
   * Runs the probes that are due: those marked `always` after `restMs`, and those of dependencies that are down or had
   * a failed operation. Resolves when each has ended or timed out. Never rejects.
   */
  probe(): Promise<void>
  /** As `list`, without waiting. Starts probes older than `freshMs`, so that the next call is up to date. */
  current(): readonly DependencyView[]
  close(): void
}

export interface Probe {
  /** Resolves when the dependency accepts a write. */
  readonly run: () => Promise<unknown>
  /** Whether it is also run while the dependency is up. */
  readonly always?: boolean
}

export interface DependencyHealthOptions {
  readonly bus: Bus
  /** Probes by the name of the dependency; null for one without a probe. */
  readonly dependencies: { readonly [dependency: string]: Probe | null }
  /** Milliseconds since 1970. */
  readonly now?: () => number
  readonly answerMs?: number
}

const restMs = 5_000
const freshMs = 2_000
const longestDoubtMs = 10_000
const doubtMs = 1_000

interface Refusals {
  readonly count: number
  readonly at: number
  readonly reason: string
}

interface Watched {
  readonly name: string
  readonly probe: Probe | null
  /** By operation: failures since its last success, counted while the probe works. */
  readonly refusals: Map<string, Refusals>
  probedAt: number
  /** Whether an operation failed since the last probe started. */
  doubted: boolean
  failure: string | undefined
  /** The pending probe. */
  probing: Promise<void> | undefined
  readonly availability: Availability
  unresponsive: boolean
  readonly unresponsiveListeners: Set<() => void>
}

export function createDependencyHealth(options: DependencyHealthOptions): DependencyHealth {
  const { bus, dependencies, now = Date.now, answerMs = 3_000 } = options
  const watch = (dependency: string, probe: Probe | null): Watched => {
    const availability = createAvailability(now, {
      down: (reason) => bus.emit('dependency:down', { dependency, reason }),
      up: (downMs) => bus.emit('dependency:up', { dependency, downMs }),
    })
    return watched(dependency, probe, availability, now())
  }
  const all = new Map(Object.entries(dependencies).map(([name, probe]) => [name, watch(name, probe)]))

  const settle = (one: Watched): void => one.availability.settle(troubleOf(one, now()))
  /** Runs one probe at a time; a probe that hangs is not repeated, and its late answer is used. */
  const probeOne = (one: Watched, probe: Probe): Promise<void> => {
    one.probing ??= new Promise((resolve) => {
      one.doubted = false
      const ended = (failure: string | undefined): void => {
        one.failure = failure
        if (failure !== undefined) one.refusals.clear()
        one.probedAt = now()
        settle(one)
        resolve()
      }
      let isLate = false
      let isOver = false
      const becomeUnresponsive = (): void => {
        if (isOver) return
        isLate = true
        ended(`It did not answer within ${answerMs} ms.`)
        if (one.unresponsive) return
        one.unresponsive = true
        for (const listener of [...one.unresponsiveListeners]) listener()
      }
      // After setImmediate, so that an answer that arrived while the event loop was blocked is handled first.
      const late = setTimeout(() => setImmediate(becomeUnresponsive), answerMs)
      late.unref()
      void probe
        .run()
        .then(
          () => {
            one.unresponsive = false
            ended(undefined)
          },
          (error: unknown) => {
            // A late failure comes from the client, which stopped waiting; the dependency has not answered.
            one.unresponsive &&= isLate
            ended(error instanceof Error ? error.message : String(error))
          },
        )
        .finally(() => {
          isOver = true
          clearTimeout(late)
          one.probing = undefined
          if (one.doubted) void probeOne(one, probe)
        })
    })
    return one.probing
  }
  const probeWhere = async (isDue: (one: Watched, probe: Probe) => boolean): Promise<void> => {
    const due = [...all.values()].flatMap((one) => {
      if (one.probe === null || !isDue(one, one.probe)) return []
      return [probeOne(one, one.probe)]
    })
    await Promise.all(due)
    for (const one of all.values()) settle(one)
  }
  /** Subscribes to successful operations only after a failure, to cost calls nothing while all dependencies are up. */
  let stopFollowing: (() => void) | undefined
  const followWorking = (): void => {
    stopFollowing ??= bus.on('dependency:worked', ({ dependency, operation }) => {
      const one = all.get(dependency)
      if (one?.refusals.delete(operation) === true) settle(one)
      if ([...all.values()].some(({ refusals }) => refusals.size > 0)) return
      stopFollowing?.()
      stopFollowing = undefined
    })
  }
  const stopListening = bus.on('dependency:failed', ({ dependency, operation, reason }) => {
    const one = all.get(dependency)
    if (one === undefined) return
    const { count = 0, at = Number.NEGATIVE_INFINITY } = one.refusals.get(operation) ?? {}
    // Failures within a second count once, and not at all while the probe fails.
    if (one.failure === undefined && now() - at >= doubtMs) {
      one.refusals.set(operation, { count: count + 1, at: now(), reason })
      followWorking()
    }
    one.doubted = true
    settle(one)
    if (one.probe !== null) void probeOne(one, one.probe)
  })
  const list = (): readonly DependencyView[] => [...all.values()].map(viewOf)
  return {
    list,
    isUp: (dependency) => all.get(dependency)?.availability.down === undefined,
    isUnresponsive: (dependency) => all.get(dependency)?.unresponsive === true,
    onUnresponsive(dependency, listener) {
      const listeners = all.get(dependency)?.unresponsiveListeners
      listeners?.add(listener)
      return () => void listeners?.delete(listener)
    },
    probe: () =>
      probeWhere((one, { always = false }) => {
        if (one.availability.down !== undefined || one.doubted || one.probing !== undefined) return true
        return always && now() - one.probedAt >= restMs
      }),
    current() {
      void probeWhere((one, { always = false }) => one.doubted || (always && now() - one.probedAt >= freshMs))
      return list()
    },
    close() {
      stopListening()
      stopFollowing?.()
    },
  }
}

/** The part of DependencyHealth that reports dependencies that stop answering. */
export type ResponseWatch = Pick<DependencyHealth, 'isUnresponsive' | 'onUnresponsive'>

/**
 * Runs work that waits for a dependency. While the dependency is unresponsive, the work is refused without being started.
 * Work that is pending when it becomes unresponsive is refused at that moment, and may still take effect.
 */
export async function unlessUnresponsive<Result>(
  health: ResponseWatch,
  dependency: string,
  refusal: () => Error,
  work: () => Promise<Result>,
): Promise<Result> {
  if (health.isUnresponsive(dependency)) throw refusal()
  const unresponsiveness = Promise.withResolvers<never>()
  const unsubscribe = health.onUnresponsive(dependency, () => unresponsiveness.reject(refusal()))
  return Promise.race([work(), unresponsiveness.promise]).finally(unsubscribe)
}

/** Whether one dependency is unavailable, since when and why; reports each change once. */
interface Availability {
  readonly down: { readonly since: number; readonly reason: string } | undefined
  /** Sets why it is unavailable; undefined when it is available. */
  settle(reason: string | undefined): void
}

function createAvailability(
  now: () => number,
  changed: { readonly down: (reason: string) => void; readonly up: (downMs: number) => void },
): Availability {
  let down: Availability['down']
  return {
    get down() {
      return down
    },
    settle(reason) {
      if (reason === undefined && down !== undefined) {
        const downMs = now() - down.since
        down = undefined
        changed.up(downMs)
      } else if (reason !== undefined && down === undefined) {
        down = { since: now(), reason }
        changed.down(reason)
      }
    },
  }
}

/** One operation on a dependency, which reports its failures to the health of the dependency. */
export interface ObservedOperation {
  /** Whether the last attempt failed. */
  readonly failing: boolean
  failed(error: unknown): void
  worked(): void
}

/** Errors other than STORE_UNAVAILABLE are not reported, because the dependency answered. */
export function observedOperation(
  bus: Bus,
  subject: { readonly dependency: string; readonly operation: string },
): ObservedOperation {
  let failing = false
  return {
    get failing() {
      return failing
    },
    failed(error) {
      failing = true
      const isUnavailable = ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
      if (isUnavailable) bus.emit('dependency:failed', { ...subject, reason: error.message })
    },
    worked() {
      if (failing) bus.emit('dependency:worked', subject)
      failing = false
    },
  }
}

/** The availability of the keys of token issuers, by the name of the issuer. */
export interface IssuerHealth {
  /** Sets why the keys of an issuer cannot be fetched; undefined when they were fetched. */
  settle(issuer: string, reason: string | undefined): void
}

/** Emits one event when the keys of an issuer become unavailable, and one when they are available again. */
export function createIssuerHealth(bus: Bus, now: () => number = performance.now.bind(performance)): IssuerHealth {
  const issuers = new Map<string, Availability>()
  const create = (issuer: string): Availability => {
    const availability = createAvailability(now, {
      down: (reason) => bus.emit('issuer:down', { issuer, reason }),
      up: (downMs) => bus.emit('issuer:up', { issuer, downMs: Math.round(downMs) }),
    })
    issuers.set(issuer, availability)
    return availability
  }
  return { settle: (issuer, reason) => (issuers.get(issuer) ?? create(issuer)).settle(reason) }
}

function watched(name: string, probe: Probe | null, availability: Availability, at: number): Watched {
  return {
    name,
    probe,
    availability,
    refusals: new Map(),
    probedAt: at,
    doubted: false,
    failure: undefined,
    probing: undefined,
    unresponsive: false,
    unresponsiveListeners: new Set(),
  }
}

/** Why a dependency is down; undefined when it is up. */
function troubleOf({ probe, failure, refusals }: Watched, at: number): string | undefined {
  if (failure !== undefined) return failure
  for (const { count, at: last, reason } of refusals.values()) {
    const doubt = Math.min((count - 1) * doubtMs, longestDoubtMs)
    if (probe === null || at < last + doubt) return reason
  }
  return undefined
}

function viewOf({ name, availability: { down } }: Watched): DependencyView {
  if (down === undefined) return { dependency: name, up: true }
  return { dependency: name, up: false, since: new Date(down.since).toISOString(), reason: down.reason }
}
