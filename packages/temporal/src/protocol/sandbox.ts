/**
 * Documents of the runtime role. Workflow code reads this file, so it imports types only, and nothing of Node.
 */
import type { WireSpec } from '@gantry/sandbox-remote/internal/protocol/documents'

/** One program to run once, without the program itself. */
export interface SandboxTask {
  readonly spec: WireSpec
  /** Milliseconds since 1970 after which no worker starts it. */
  readonly notAfterMs: number
  /** How long it may wait for a worker. */
  readonly queueMs: number
  /** Longest time from its start on a worker to its end. */
  readonly runMs: number
  /** A worker that is silent for this long is lost. */
  readonly heartbeatMs: number
}

/** Why a workflow has no outcome of a program. */
export interface NoOutcome {
  /** `queued`: no worker took it. `lost`: a worker did, and nothing is known of it since. `refused`: it was not valid. */
  readonly failed: 'queued' | 'lost' | 'late' | 'failed'
}

export const sandboxWorkflow = 'gantrySandbox'
export const offersWorkflow = 'gantryOffers'
export const sandboxActivity = 'gantry.sandbox'
export const offersActivity = 'gantry.offers'
