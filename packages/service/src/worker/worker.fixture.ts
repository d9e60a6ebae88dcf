import type { ChainResult, ErrorInfo, Result } from '@gantry/contract'
import type { Bus, WorkerEvent, WorkerEvents } from '../observe/bus.ts'
import type { AdmittedCall, Claim } from '../storage/calls/call-store.ts'

/** A call as admission leaves it. */
export function someCall(given: Partial<AdmittedCall> = {}): AdmittedCall {
  return {
    callId: 'c-1',
    kind: 'call',
    identity: { principal: 'ada', tenant: 'acme', permissions: ['*'] },
    fingerprint: 'f',
    tool: 'test:it:1.0.0',
    digest: 'd',
    effect: 'read',
    payload: '{}',
    payloadBytes: 2,
    ...given,
  }
}

export function someClaim(given: Partial<Claim> = {}, call: Partial<AdmittedCall> = {}): Claim {
  const callId = given.callId ?? 'c-1'
  const plain = {
    callId,
    fence: 1,
    deliveries: 1,
    lost: 0,
    begun: false,
    deaths: 0,
    faults: 0,
    rests: 0,
    cancelled: false,
  }
  return { ...plain, call: someCall({ callId, ...call }), ...given }
}

export function someResult(given: Partial<Result> = {}): Result {
  return {
    callId: 'c-1',
    status: 'ok',
    output: null,
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 1, enforced: {} },
    attempts: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    durationMs: 1,
    ...given,
  }
}

export function someError(given: Partial<ErrorInfo> = {}): ErrorInfo {
  return { code: 'CANCELLED', message: 'no', stage: 'execute', retryable: false, effect: 'possible', ...given }
}

/** A bus that remembers. */
export function memoryBus(): Bus & { readonly heard: { name: WorkerEvent; event: unknown }[] } {
  const heard: { name: WorkerEvent; event: unknown }[] = []
  return {
    heard,
    emit<Name extends WorkerEvent>(name: Name, event: WorkerEvents[Name]) {
      heard.push({ name, event })
    },
    on: () => () => undefined,
  }
}

export type Outcome = Result | ChainResult
