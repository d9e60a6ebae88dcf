import type { ChainResult, Result } from '@gantry/contract'
import type { Tracer } from '@gantry/core'
import type { Transport } from '../brokers/transports/transport.ts'
import type { Snapshot, Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { AdmittedCall, CallStore, Claim, ClaimOptions, Ending, Holder } from '../storage/calls/call-store.ts'
import type { MissingTool } from './call-decisions.ts'
import type { Paused } from './execute/execute-call.ts'
import type { LeaseListener, Leases } from './lease/leases.ts'
import type { Recorder } from './record/recorder.ts'
import type { Task } from './slot-scheduler.ts'

export type Outcome = Result | ChainResult

/** The dependencies of a worker; a test gives it its own clock, randomness and engines. */
export interface WorkerPorts {
  readonly store: CallStore
  readonly transport: Transport
  readonly recorder: Recorder
  readonly leases: (news: LeaseListener) => Leases
  readonly snapshots: Snapshots
  /** Absent where every worker has the tools of every call. */
  readonly versions?: Versions
  /** Records durably that an attempt begins; false when another worker has the call. */
  readonly begin: (holder: Holder) => Promise<boolean>
  /**
   * Runs the call, chain or program; resolves with its outcome, of any status, once its reports are stored, or with the
   * time after which a program is to be resumed.
   */
  readonly execute: (snapshot: Snapshot, task: Task, traceparent?: string) => Promise<Outcome | Paused>
  /** Makes an outcome small enough to be recorded, and offloads its large parts. */
  readonly offload: (task: Task, outcome: Outcome) => Promise<Omit<Ending, keyof Holder | 'config'>>
  /** Releases the resources of a call, once its outcome is recorded; never rejects. */
  readonly release?: (snapshot: Snapshot, claim: Claim, ending: Ending) => Promise<void>
  /** Whether a caller of this process waits for the call and has no answer yet; false when absent. */
  readonly awaits?: (claim: Claim) => boolean
  /** Notifies waiters of this process, and replies to brokers. */
  readonly reply: (claim: Claim, ending: Ending) => void
  readonly bus: Bus
  /** Absent, nothing is traced. */
  readonly tracer?: Tracer | undefined
  /**
   * Claims calls of tenants other than those in `filled`, one of each and `most` in all; called while nothing else is
   * claimable. Absent, those calls wait.
   */
  readonly newcomers?: (most: number, filled: ReadonlyMap<string, number>) => Promise<readonly Claim[]>
  /** The current shares of tenants; all are equal when absent. */
  readonly shares?: () => ClaimOptions['shares']
  readonly now: () => Date
  readonly random: () => number
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

/** Decides which calls can run here, while workers with other versions of the tools share the queue. */
export interface Versions {
  /** The tool that a call was admitted for and that is missing here. */
  readonly missing: (snapshot: Snapshot, call: AdmittedCall) => Promise<MissingTool | undefined>
  /** The time that a call waits for a worker with its tool. */
  readonly waitMs: number
}

export interface WorkerOptions {
  readonly slots: number
  readonly maxDeaths: number
  /** Calls claimed ahead of the slots while calls are short. */
  readonly ahead: number
}
