import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { encodeJob } from '@gantry/sandbox-remote/internal/protocol/job'
import type { Client, WorkflowHandle } from '@temporalio/client'
import { createCodec, PayloadTooLarge } from '../connection/codec.ts'
import { queueOf, type TemporalClient } from '../connection/connect.ts'
import { resultOf, startOnce } from '../connection/execution.ts'
import { decodeEnd, type OutputReport, readOutputReport, type SandboxEnd } from '../protocol/outcome.ts'
import { type SandboxTask, sandboxWorkflow } from '../protocol/sandbox.ts'

export interface RunTimes {
  /** How long a program waits for a worker. */
  readonly queueMs: number
  /** A worker that is silent for this long is lost. */
  readonly heartbeatMs: number
}

/** Time beyond the wall limit for the start of the sandbox and its removal. */
const graceMs = 60_000
/** The clock of the worker may differ by this much. */
const skewMs = 60_000
/** How often the reported output of a running program is read. */
const outputMs = 300
const cancelMs = 30_000

/** A workflow that runs one program. */
export async function runOverTemporal(
  source: TemporalClient,
  spec: SandboxSpec,
  job: SandboxJob,
  { queueMs, heartbeatMs }: RunTimes,
  signal: AbortSignal,
): Promise<Extract<SandboxEnd, { kind: 'outcome' }>> {
  const { network: _network, dial: _dial, ...wire } = spec
  const runMs = spec.limits.wallMs + graceMs
  const task: SandboxTask = { spec: wire, notAfterMs: Date.now() + queueMs + skewMs, queueMs, runMs, heartbeatMs }
  const body = encodeJob(job)
  const client = await source.get()
  signal.throwIfAborted()
  const workflowId = `gantry-sandbox-${randomBytes(12).toString('base64url')}`
  const handle = await start(client, source, workflowId, [task, body], queueMs + runMs + graceMs)
  const output = createOutput(job)
  const ended = new AbortController()
  const watching = job.onOutput === undefined ? undefined : watch(client, source, workflowId, output, ended.signal)
  const cancelled = Promise.withResolvers<never>()
  cancelled.promise.catch(() => undefined)
  const leave = onAbort(signal, () => void cancel(client, handle, signal.reason).catch(cancelled.reject))
  try {
    const found = await Promise.race([resultOf(handle, queueMs + runMs + graceMs, signal), cancelled.promise])
    const end = endOf(found, spec, job)
    if (end.kind === 'error') throw end.error
    ended.abort()
    await watching
    output.rest(end.outcome)
    for (const message of end.messages) job.onMessage?.(message)
    signal.throwIfAborted()
    return end
  } catch (error) {
    if (signal.aborted) await cancelled.promise
    throw error
  } finally {
    leave()
    ended.abort()
    await watching
  }
}

async function start(
  client: Client,
  { target }: TemporalClient,
  workflowId: string,
  args: readonly [SandboxTask, Uint8Array],
  longestMs: number,
): Promise<WorkflowHandle> {
  try {
    const { handle } = await startOnce(client, sandboxWorkflow, {
      workflowId,
      taskQueue: queueOf(target, 'sandboxes'),
      args: [...args],
      workflowExecutionTimeout: longestMs,
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
    })
    return handle
  } catch (error) {
    if (error instanceof PayloadTooLarge) {
      const message = `The program and its files have ${error.bytes} bytes as a payload, more than Temporal takes; pass less, or use another runtime.`
      throw new ToolError('INPUT_INVALID', message, { cause: error, effect: 'none' })
    }
    if (ToolError.is(error)) throw error
    throw new ToolError('SANDBOX_INIT_FAILED', `The program was not handed to Temporal at ${target.address}.`, {
      cause: error,
    })
  }
}

/** Waits for the end of the workflow, which comes when the worker has ended the sandbox, then rejects with the reason. */
async function cancel(client: Client, handle: WorkflowHandle, reason: unknown): Promise<never> {
  await handle.cancel().catch(() => undefined)
  await resultOf(client.workflow.getHandle(handle.workflowId), cancelMs, AbortSignal.timeout(cancelMs)).catch(
    () => undefined,
  )
  throw reason
}

function endOf(found: unknown, spec: SandboxSpec, { collect }: SandboxJob): SandboxEnd {
  if (found instanceof Uint8Array) {
    const end = decodeEnd(found, spec.limits, collect)
    if (end !== undefined) return end
    throw new ToolError(
      'BACKEND_FAILED',
      'The Temporal worker sent an invalid outcome; check that both run the same version of Gantry.',
    )
  }
  const failed = isObject(found) ? found.failed : undefined
  if (failed === 'queued')
    throw new ToolError('SANDBOX_INIT_FAILED', 'No Temporal worker took the program; start `gantry worker temporal`.')
  if (failed === 'lost' || failed === 'late') {
    throw new ToolError(
      'OUTCOME_UNKNOWN',
      'The Temporal worker that ran the program was lost, and its outcome is unknown.',
    )
  }
  const message =
    'The Temporal worker gave no outcome that this process can read; compare payloadKey and the versions on both sides.'
  throw new ToolError('BACKEND_FAILED', message)
}

/** Hands output on in its order: what heartbeats reported first, then what the outcome has beyond that. */
function createOutput({ onOutput }: SandboxJob) {
  let pieces = 0
  const sent = { stdout: 0, stderr: 0 }
  const give = (stream: 'stdout' | 'stderr', bytes: Uint8Array): void => {
    if (bytes.length === 0) return
    sent[stream] += bytes.length
    onOutput?.(stream, bytes)
  }
  return {
    report(report: OutputReport): void {
      // Pieces that were never reported are known with the outcome only, and what follows them waits for it.
      if (report.skipped > pieces) return
      for (const { stream, base64 } of report.pieces.slice(pieces - report.skipped)) {
        pieces += 1
        give(stream, Buffer.from(base64, 'base64'))
      }
    },
    rest({
      stdout,
      stderr,
    }: {
      readonly stdout: { readonly bytes: Uint8Array }
      readonly stderr: { readonly bytes: Uint8Array }
    }): void {
      give('stdout', stdout.bytes.subarray(sent.stdout))
      give('stderr', stderr.bytes.subarray(sent.stderr))
    },
  }
}

/** Reads the reported output until the run has ended. Never rejects. */
async function watch(
  client: Client,
  { target }: TemporalClient,
  workflowId: string,
  output: ReturnType<typeof createOutput>,
  signal: AbortSignal,
): Promise<void> {
  const codec = createCodec(target.payloadKeys)
  const { namespace } = target
  while (!signal.aborted) {
    try {
      await delay(outputMs, undefined, { signal })
      const found = await client.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } })
      const payloads = found.pendingActivities?.[0]?.heartbeatDetails?.payloads ?? []
      const [decoded] = await codec.decode(payloads, { type: 'workflow', namespace, workflowId })
      const { data } = decoded ?? {}
      if (data === undefined || data === null || signal.aborted) continue
      const report = readOutputReport(JSON.parse(Buffer.from(data).toString()))
      if (report !== undefined) output.report(report)
    } catch {
      // The outcome has all of it.
    }
  }
}
