import { follow, unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Probe, Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { Timing } from '../pools/timing.ts'

/** How long a failed probe is cached; an operator may repair the runtime. */
const failureMs = 30_000
/** A probe that takes longer does not work. */
const longestMs = 60_000

/**
 * Probes each runtime when it is first needed, and once: those who ask meanwhile wait for the same probe, and those who
 * ask later hear at once. A failure is forgotten after a while, unless an attack succeeded: that one is for good.
 */
export interface Probes {
  /** At once when it is known. Rejects only with the signal's reason; the probe goes on for the others. */
  get(runtime: Runtime, signal: AbortSignal): Probe | Promise<Probe>
}

interface Known {
  readonly probe: Probe
  readonly at: number
}

/** Self-test attacks that succeeded. */
export function breaches(probe: Probe): readonly string[] {
  return probe.available ? [] : (probe.breached ?? [])
}

/** `closing` ends probes that run. */
export function createProbes(timing: Timing, closing: AbortSignal): Probes {
  const known = new Map<Runtime, Known>()
  const running = new Map<Runtime, Promise<Probe>>()

  const start = (runtime: Runtime): Promise<Probe> => {
    const probing = probeOnce(runtime, timing, closing).then((probe) => {
      known.set(runtime, { probe, at: timing.now() })
      running.delete(runtime)
      return probe
    })
    running.set(runtime, probing)
    return probing
  }
  return {
    get(runtime, signal) {
      const last = known.get(runtime)
      if (last !== undefined && !isStale(last, timing.now())) return last.probe
      return unlessAborted(running.get(runtime) ?? start(runtime), signal)
    },
  }
}

function isStale({ probe, at }: Known, now: number): boolean {
  return !probe.available && breaches(probe).length === 0 && now - at >= failureMs
}

async function probeOnce(runtime: Runtime, timing: Timing, closing: AbortSignal): Promise<Probe> {
  const late = new AbortController()
  const callOff = timing.after(longestMs, () => late.abort())
  const { signal, leave } = follow(closing, late.signal)
  try {
    return await unlessAborted(runtime.probe(signal), signal)
  } catch {
    const reason = late.signal.aborted ? `Its self-test took longer than ${longestMs} ms.` : 'Its self-test broke off.'
    return { available: false, reason, remedy: 'Look at `gantry doctor`, and try again.' }
  } finally {
    callOff()
    leave()
  }
}
