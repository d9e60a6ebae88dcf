import { type CallView, type Identity, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Server, ServerContext, StandardSchemaV1 } from '@modelcontextprotocol/server'
import type { DurableCalls } from './host.ts'
import { type McpSdk, withProtocolErrors } from './sdk.ts'
import type { Era, McpParts } from './server.ts'
import type { Revision } from './tool-list.ts'

/** The extension of 2026-07-28 that tasks are; 2025-11-25 has them among its own. */
export const tasksExtension = 'io.modelcontextprotocol/tasks'
const relatedTask = 'io.modelcontextprotocol/related-task'
const capabilitiesMeta = 'io.modelcontextprotocol/clientCapabilities'
/** The suggested polling interval. */
const pollMs = 1_000
const waitMs = 60_000
const longestId = 200

/**
 * A task is a stored call under the same id: it outlives the connection, the client and this process, and is visible
 * only to the principal that submitted it.
 *
 * States:
 * - `working`: the call has no outcome. A call that waits for approval is working, because its caller cannot approve it.
 * - `cancelled`: the call was cancelled.
 * - `completed`: the call has another outcome. The result may be an error of the tool; `failed` is not used.
 */
export async function taskCall(durable: DurableCalls, taskId: string, identity: Identity): Promise<CallView> {
  const absent = new ToolError('NOT_FOUND', 'There is no task with this id.')
  const view = await durable.call(taskId, identity).catch((error: unknown) => {
    throw ToolError.is(error) && error.code === 'NOT_FOUND' ? absent : error
  })
  if (view.principal !== identity.principal) throw absent
  return view
}

const notes: { readonly [state: string]: string } = {
  queued: 'It waits for a worker.',
  delayed: 'It waits for its time.',
  asked: 'It waits for the approval of a person.',
}

interface TaskFacts {
  readonly taskId: string
  readonly status: 'working' | 'completed' | 'cancelled'
  readonly statusMessage?: string
  readonly createdAt: string
  readonly lastUpdatedAt: string
}

function factsOf({ callId, state, createdAt, startedAt, finishedAt, result }: CallView): TaskFacts {
  const status = result === undefined ? 'working' : result.status === 'cancelled' ? 'cancelled' : 'completed'
  const note = notes[state]
  return {
    taskId: callId,
    status,
    createdAt,
    lastUpdatedAt: finishedAt ?? startedAt ?? createdAt,
    ...(note === undefined ? {} : { statusMessage: note }),
  }
}

/** The result of a call that became a task. */
export interface CreatedTask {
  readonly _meta?: { readonly [name: string]: unknown }
  readonly [member: string]: unknown
}

/** The task that a call became, in the form of each revision. */
export function createdTask(view: CallView, revision: Revision): CreatedTask {
  const facts = factsOf(view)
  if (revision === '2025-11-25') return { task: { ...facts, ttl: null, pollInterval: pollMs } }
  return { resultType: 'task', ...facts, status: 'working', ttlMs: null, pollIntervalMs: pollMs }
}

/** Whether the client of a request of 2026-07-28 supports tasks. */
export function knowsTasks(meta: unknown): boolean {
  const capabilities = isObject(meta) ? meta[capabilitiesMeta] : undefined
  const extensions = isObject(capabilities) ? capabilities.extensions : undefined
  return isObject(extensions) && Object.hasOwn(extensions, tasksExtension)
}

export function serveTasks(sdk: McpSdk, server: Server, parts: McpParts, durable: DurableCalls, era: Era): void {
  const { write, identityOf } = parts
  const on = (
    method: string,
    handle: (
      params: TaskParams,
      identity: Identity,
      ctx: ServerContext,
    ) => Promise<{ readonly [name: string]: unknown }>,
  ): void =>
    server.setRequestHandler(method, { params: taskParams }, (params, ctx) => {
      if (era === 'modern' && !knowsTasks(ctx.mcpReq.envelope)) {
        const requiredCapabilities = { extensions: { [tasksExtension]: {} } }
        throw new sdk.MissingRequiredClientCapabilityError({ requiredCapabilities })
      }
      return withProtocolErrors(sdk, () => handle(params, identityOf(ctx), ctx))
    })

  if (era === 'modern') {
    on('tasks/get', async ({ taskId }, identity, { mcpReq: { signal } }) => {
      const view = await taskCall(durable, taskId, identity)
      const facts = { ...factsOf(view), ttlMs: null, pollIntervalMs: pollMs }
      if (facts.status !== 'completed' || view.result === undefined) return facts
      return { ...facts, result: await write(view.result, { revision: '2026-07-28', identity, signal }) }
    })
    on('tasks/cancel', async ({ taskId }, identity) => {
      await taskCall(durable, taskId, identity)
      await durable.cancel(taskId, identity)
      return {}
    })
    // No call requests input from its caller, so there is nothing to answer.
    on('tasks/update', async ({ taskId }, identity) => {
      await taskCall(durable, taskId, identity)
      return {}
    })
    return
  }
  const taskOf = (view: CallView) => ({ ...factsOf(view), ttl: null, pollInterval: pollMs })
  on('tasks/get', async ({ taskId }, identity) => taskOf(await taskCall(durable, taskId, identity)))
  on('tasks/cancel', async ({ taskId }, identity) => {
    const before = await taskCall(durable, taskId, identity)
    if (before.result !== undefined) throw new ToolError('INPUT_INVALID', 'The task has ended; it cannot be cancelled.')
    const after = await durable.cancel(taskId, identity)
    return { ...taskOf(after), status: 'cancelled' }
  })
  on('tasks/result', async ({ taskId }, identity, { mcpReq: { signal } }) => {
    await taskCall(durable, taskId, identity)
    for (;;) {
      const outcome = await durable.wait(taskId, identity, waitMs, signal)
      signal.throwIfAborted()
      if (outcome === undefined) continue
      const { _meta, ...result } = await write(outcome, { revision: '2025-11-25', identity, signal })
      return { ...result, _meta: { ..._meta, [relatedTask]: { taskId } } }
    }
  })
  on('tasks/list', async ({ cursor }, identity) => {
    const page = await durable.calls(cursor === undefined ? {} : { cursor }, identity)
    const own = page.items.filter(({ principal }) => principal === identity.principal)
    const tasks = await Promise.all(own.map(({ callId }) => taskCall(durable, callId, identity)))
    return { tasks: tasks.map(taskOf), ...(page.cursor === undefined ? {} : { nextCursor: page.cursor }) }
  })
}

interface TaskParams {
  readonly taskId: string
  readonly cursor?: string
}

/** `tasks/list` has no task id; an empty id matches no task. */
const taskParams: StandardSchemaV1<unknown, TaskParams> = {
  '~standard': {
    version: 1,
    vendor: 'gantry',
    validate(value) {
      const { taskId = '', cursor } = isObject(value) ? value : {}
      if (typeof taskId !== 'string' || taskId.length > longestId)
        return { issues: [{ message: 'taskId must be a text' }] }
      if (cursor !== undefined && typeof cursor !== 'string') return { issues: [{ message: 'cursor must be a text' }] }
      return { value: cursor === undefined ? { taskId } : { taskId, cursor } }
    },
  },
}
