import type { Json, RetryRule } from '@gantry/contract'
import type { Check } from './condition.ts'
import type { Template } from './template.ts'

/** A checked call, ready to be bound and run. */
export interface PlannedCall {
  readonly kind: 'call'
  readonly id: string
  readonly tool: string
  readonly args: Template
  readonly when: Check | undefined
  readonly forEach: Template | undefined
  readonly concurrency: number
  readonly timeoutMs: number | undefined
  readonly retry: RetryRule | undefined
  /** What the chain goes on with when the step fails; `stop` when it does not go on. */
  readonly onError: 'stop' | { readonly output: Json }
}

export interface PlannedGroup {
  readonly kind: 'group'
  readonly id: string
  readonly members: readonly PlannedCall[]
  readonly when: Check | undefined
  readonly concurrency: number
}

export type PlannedStep = PlannedCall | PlannedGroup
