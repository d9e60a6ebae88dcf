import type { ChainResult, Result } from '@gantry/contract'
import type { Tracer } from '@gantry/core'
import type { Transport } from '../brokers/transports/transport.ts'
import type { Snapshot, Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { AdmittedCall, CallStore, Claim, ClaimOptions, Ending, Holder } from '../storage/calls/call-store.ts'
import type { Paused } from './execute/run-program.ts'
import type { LeaseListener, Leases } from './lease/leases.ts'
import type { Recorder } from './record/recorder.ts'
import type { Task } from './slot-scheduler.ts'
import type { MissingTool } from './tool-versions.ts'

export type Outcome = Result | ChainResult

/** Everything a worker reaches outside itself; a test gives it a clock, randomness and engines of its own. */
export interface WorkerPorts {
  readonly store: CallStore
  readonly transport: Transport
  readonly recorder: Recorder
  readonly leases: (news: LeaseListener) => Leases
  readonly snapshots: Snapshots
  /** Absent where every worker has the tools of every call. */
  readonly versions?: Versions
  /** Says durably that the work on a call begins; false when it is not ours any more. */
  readonly begin: (holder: Holder) => Promise<boolean>
  /**
   * Runs the call, chain or program; resolves with its outcome, whatever that is, once its reports are kept, or with the
   * time after which a program is to be taken up again.
   */
  readonly execute: (snapshot: Snapshot, task: Task, traceparent?: string) => Promise<Outcome | Paused>
  /** Makes of an outcome what is to be recorded: small enough, with what was large beside it. */
  readonly offload: (task: Task, outcome: Outcome) => Promise<Omit<Ending, keyof Holder | 'config'>>
  /** Lets go of what a call needed, once its outcome is recorded; never rejects. */
  readonly release?: (snapshot: Snapshot, claim: Claim, ending: Ending) => Promise<void>
  /** Whether its caller waits for the call here, and was told nothing of it yet; nobody's does when absent. */
  readonly awaits?: (claim: Claim) => boolean
  /** Tells those who wait here. */
  readonly reply: (claim: Claim, ending: Ending) => void
  readonly bus: Bus
  /** Absent, nothing is traced. */
  readonly tracer?: Tracer | undefined
  /**
   * Claims calls of tenants of which the worker has none in hand, one of each and so many in all; asked while there is no
   * room for others. Absent, nobody asks.
   */
  readonly newcomers?: (most: number) => Promise<readonly Claim[]>
  /** The shares of tenants as they are now; all are equal when absent. */
  readonly shares?: () => ClaimOptions['shares']
  readonly now: () => Date
  readonly random: () => number
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

/** Which calls can run here, while workers with other versions of the tools work on the same queue. */
export interface Versions {
  /** The tool that a call was admitted for and that is not here. */
  readonly missing: (snapshot: Snapshot, call: AdmittedCall) => Promise<MissingTool | undefined>
  /** For how long a call waits for a worker that has its tool. */
  readonly waitMs: number
}

export interface WorkerOptions {
  readonly slots: number
  readonly maxDeaths: number
  /** Calls claimed ahead of the slots while calls are short. */
  readonly ahead: number
}
