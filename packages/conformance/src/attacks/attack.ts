import type { Outcome, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'

/** What an attack came to: what matters is its effect, never the text of an error. */
export type AttackEnd = 'blocked' | 'succeeded'

/** What cannot be held on this machine, and why; it is counted as explained, never as blocked. */
export interface Excused {
  readonly explained: string
}

/** Where an attack is made: the runtime under test, and one that guards against nothing. */
export interface Ground {
  readonly kind: string
  readonly runtime: Runtime
  /** What `outside` runs in; it guards against nothing. */
  readonly unguarded: Runtime
  /** Runs a job in a fresh sandbox of the runtime under test. */
  inside(job: SandboxJob, spec?: Partial<SandboxSpec>): Promise<Outcome>
  /** Runs the same job where nothing guards against it, under the limits given, so that it cannot hurt the machine. */
  outside(job: SandboxJob, spec?: Partial<SandboxSpec>): Promise<Outcome>
  /** A folder on the host that is this attack's own, and removed after it. */
  readonly folder: string
  /** Says in the test's report what was found, for whoever has to find out why an attack succeeded. */
  note(text: string): void
}

/** One attack of the list in SECURITY.md, by its number there. */
export interface Attack {
  readonly number: number
  readonly title: string
  /** Makes the attack on the runtime and looks for its effect. */
  attempt(ground: Ground): Promise<AttackEnd | Excused>
  /**
   * Shows that the very same attack works without the guard; a text says why that cannot be shown here.
   * Without it a passing attempt would prove nothing.
   */
  readonly control: ((ground: Ground) => Promise<AttackEnd>) | string
  /** Runtimes in which there is nothing to attack, and why. */
  readonly explained?: { readonly [kind: string]: string }
}
