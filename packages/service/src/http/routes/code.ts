import type { Route } from '../route.ts'
import { ref } from '../schemas.ts'
import { callRefusals } from './calls.ts'
import { acceptedDoc, submissionHeaders, submissionMembers, submissionOf, submit } from './submission.ts'

/** The tool that every executor has for programs; its schema says what of these it takes. */
const programTool = 'code:program'
const members = ['code', 'language', 'limits', 'check'] as const

export const codeRoute: Route = {
  id: 'runCode',
  method: 'POST',
  path: '/v1/code',
  tag: 'calls',
  summary:
    'Run a program over tools. The answer is its Result: its output is what the program returned. What each of its calls came to is recorded, so that it goes on where it was when its worker dies.',
  access: 'key',
  headers: submissionHeaders,
  body: {
    members: {
      code: { type: 'string', minLength: 1, description: 'The program; `return` gives the output.' },
      language: {
        enum: ['javascript', 'typescript', 'python', 'workflow'],
        description: '`typescript` when absent.',
      },
      limits: { type: 'object', description: 'Ceilings: toolCalls, chainSteps, depth, parallel, wallMs, cpuMs, …' },
      check: { type: 'boolean', description: 'Whether the code is checked against the schemas of its tools first.' },
      ...submissionMembers,
    },
    required: ['code'],
  },
  answers: { 200: { description: 'It has ended.', schema: ref('Result') }, 202: acceptedDoc },
  errors: callRefusals,
  handle(asked, service) {
    const args = Object.fromEntries(members.flatMap((name) => (name in asked.body ? [[name, asked.body[name]]] : [])))
    return submit({ kind: 'call', tool: programTool, args, ...submissionOf(asked) }, asked, service)
  },
}
