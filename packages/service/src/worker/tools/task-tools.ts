import { type Json, ToolError } from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import { raisedText } from '../../brokers/codecs/wire.ts'
import type { CallViews } from '../../storage/call-views.ts'

/**
 * The tool by which a model checks a call that went on in the background: `check_task`, as gateways know it. It reads
 * the stored call, so that any worker can answer, also after a restart, and shows a caller only calls of its own. Its
 * answer goes to a gateway, so that it includes the text of an exception only with `errorText`, as in the reply.
 */
export function taskTools(
  views: Pick<CallViews, 'get'>,
  { errorText }: { readonly errorText: boolean },
): DefinedTool[] {
  return [
    defineTool({
      namespace: 'tasks',
      name: 'check_task',
      title: 'Check a background task',
      description: 'Tells whether a tool that went on in the background has ended, and its result.',
      tags: ['tasks', 'background', 'results'],
      effect: 'read',
      timeoutMs: 30_000,
      background: false,
      inputSchema: {
        type: 'object',
        properties: {
          task_id: { type: 'string', minLength: 1, maxLength: 200, description: 'As the interim answer has it.' },
        },
        required: ['task_id'],
        additionalProperties: false,
      },
      outputSchema: {
        type: 'object',
        properties: {
          task_id: { type: 'string' },
          tool: { type: 'string' },
          status: { enum: ['running', 'completed', 'failed'] },
          result: { description: 'What the tool answered, once it is completed.' },
          error: { type: 'object', description: 'Its code and a sentence, when it failed.' },
        },
        required: ['task_id', 'tool', 'status'],
      },
      async run({ task_id }, { identity, signal }) {
        const view = await views.get(task_id, identity, signal)
        if (view.principal !== identity.principal) throw new ToolError('NOT_FOUND', 'There is no call of this id.')
        const about = { task_id, tool: view.tool }
        const { result } = view
        if (result === undefined) return { ...about, status: 'running' }
        if (result.status === 'ok') return { ...about, status: 'completed', result: result.output }
        const { code = 'INTERNAL', message = '' } = result.error ?? {}
        const raised = errorText || result.error === undefined ? undefined : raisedText(view.tool, result.error)
        const error: Json = { code, message: raised ?? message }
        return { ...about, status: 'failed', error }
      },
    }),
  ]
}
