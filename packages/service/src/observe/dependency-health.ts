import type { DependencyView } from '@gantry/contract'
import type { Bus } from './bus.ts'

/**
 * The one owner of whether each dependency of this process works; readiness, gauges and the view for operators read it.
 *
 * A dependency with a probe is down when
 * - its last probe failed or did not answer in time, or
 * - an operation was refused several times in a row although the probe works, as by a disk with room for a heartbeat
 *   only: then for a second for each refusal after the first, at most `longestDoubtMs`, since the last one.
 *
 * An operation that fails makes the probe run at once, and one that works ends its own refusals. A dependency without a
 * probe is down from an operation that failed to one that worked.
 */
export interface DependencyHealth {
  list(): readonly DependencyView[]
  isUp(dependency: string): boolean
  /** Whether a probe was not answered in time, and none has been since: whatever the dependency is asked hangs. */
  isSilent(dependency: string): boolean
  /** Calls `hear` when a dependency falls silent, until the function that it returns is called. */
  onSilent(dependency: string, hear: () => void): () => void
  /** Probes what is due: what is always probed after `restMs`, and everything that is down. Never rejects. */
  probe(): Promise<void>
  /** As `list`, with nothing older than `freshMs`. */
  fresh(): Promise<readonly DependencyView[]>
  close(): void
}

export interface Probe {
  /** Resolves when the dependency takes what is written. */
  readonly run: () => Promise<unknown>
  /** Probed also while nothing is wrong. */
  readonly always?: boolean
}

export interface DependencyHealthOptions {
  readonly bus: Bus
  /** By the name of the dependency; those without a probe are null. */
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
  /** By operation: refusals since it last worked, while the probe does. */
  readonly refusals: Map<string, Refusals>
  probedAt: number
  /** An operation failed after the last probe. */
  doubted: boolean
  failure: string | undefined
  /** The probe that has not settled, and whether it is late. */
  probing: Promise<void> | undefined
  down: { readonly since: number; readonly reason: string } | undefined
  silent: boolean
  readonly hearSilence: Set<() => void>
}

export function createDependencyHealth(options: DependencyHealthOptions): DependencyHealth {
  const { bus, dependencies, now = Date.now, answerMs = 3_000 } = options
  const all = new Map(Object.entries(dependencies).map(([name, probe]) => [name, watched(name, probe, now())]))

  const settle = (one: Watched): void => {
    const reason = troubleOf(one, now())
    if (reason === undefined && one.down !== undefined) {
      const downMs = now() - one.down.since
      one.down = undefined
      bus.emit('dependency:up', { dependency: one.name, downMs })
    } else if (reason !== undefined && one.down === undefined) {
      one.down = { since: now(), reason }
      bus.emit('dependency:down', { dependency: one.name, reason })
    }
  }
  /** One at a time: while a probe hangs, its late answer is the next one. */
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
      const fallSilent = (): void => {
        if (isOver) return
        isLate = true
        ended(`It did not answer within ${answerMs} ms.`)
        if (one.silent) return
        one.silent = true
        for (const hear of [...one.hearSilence]) hear()
      }
      // An answer that came while this thread was blocked is read first.
      const late = setTimeout(() => setImmediate(fallSilent), answerMs)
      late.unref()
      void probe
        .run()
        .then(
          () => {
            one.silent = false
            ended(undefined)
          },
          (error: unknown) => {
            // A late failure is the client's, which gave up waiting.
            one.silent &&= isLate
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
  const hearings = [
    bus.on('dependency:failed', ({ dependency, operation, reason }) => {
      const one = all.get(dependency)
      if (one === undefined) return
      const { count = 0, at = Number.NEGATIVE_INFINITY } = one.refusals.get(operation) ?? {}
      // What fails together counts once, and what fails while the probe does too is explained by that.
      if (one.failure === undefined && now() - at >= doubtMs) {
        one.refusals.set(operation, { count: count + 1, at: now(), reason })
      }
      one.doubted = true
      settle(one)
      if (one.probe !== null) void probeOne(one, one.probe)
    }),
    bus.on('dependency:worked', ({ dependency, operation }) => {
      const one = all.get(dependency)
      if (one?.refusals.delete(operation) === true) settle(one)
    }),
  ]
  const list = (): readonly DependencyView[] => [...all.values()].map(viewOf)
  return {
    list,
    isUp: (dependency) => all.get(dependency)?.down === undefined,
    isSilent: (dependency) => all.get(dependency)?.silent === true,
    onSilent(dependency, hear) {
      const hearers = all.get(dependency)?.hearSilence
      hearers?.add(hear)
      return () => void hearers?.delete(hear)
    },
    probe: () =>
      probeWhere((one, { always = false }) => one.down !== undefined || (always && now() - one.probedAt >= restMs)),
    async fresh() {
      await probeWhere((one, { always = false }) => {
        return one.doubted || one.probing !== undefined || (always && now() - one.probedAt >= freshMs)
      })
      return list()
    },
    close() {
      for (const unhear of hearings) unhear()
    },
  }
}

function watched(name: string, probe: Probe | null, at: number): Watched {
  return {
    ...{ name, probe, refusals: new Map(), probedAt: at, doubted: false },
    ...{ failure: undefined, probing: undefined, down: undefined, silent: false, hearSilence: new Set() },
  }
}

/** Why a dependency does not work; undefined when it does. */
function troubleOf({ probe, failure, refusals }: Watched, at: number): string | undefined {
  if (failure !== undefined) return failure
  for (const { count, at: last, reason } of refusals.values()) {
    const doubt = Math.min((count - 1) * doubtMs, longestDoubtMs)
    if (probe === null || at < last + doubt) return reason
  }
  return undefined
}

function viewOf({ name, down }: Watched): DependencyView {
  if (down === undefined) return { dependency: name, up: true }
  return { dependency: name, up: false, since: new Date(down.since).toISOString(), reason: down.reason }
}
