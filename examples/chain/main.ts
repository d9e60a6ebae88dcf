// Steps that use earlier outputs: references, a condition, a parallel group, one call per element, and a resume.
import { createExecutor, defineTool, demoTools, type StepResult } from 'gantry'

let online = false
const createIssue = defineTool({
  namespace: 'github',
  name: 'create_issue',
  description: 'Creates an issue.',
  inputSchema: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
  run: ({ title }) => ({ number: 7, title }),
})
const addLabels = defineTool({
  namespace: 'github',
  name: 'add_labels',
  description: 'Puts labels on an issue.',
  inputSchema: {
    type: 'object',
    properties: { issue: { type: 'integer' }, labels: { type: 'array', items: { type: 'string' } } },
    required: ['issue', 'labels'],
  },
  run({ issue, labels }) {
    if (!online) throw new Error('GitHub is unavailable')
    return { issue, labels }
  },
})

const gantry = createExecutor({ tools: [...demoTools(), createIssue, addLabels] })
const show = (steps: readonly StepResult[]): void => {
  for (const { id, state, output } of steps) console.log(`  ${id}: ${state} ${JSON.stringify(output)}`)
}

const sums = await gantry.chain(
  [
    {
      id: 'both',
      parallel: [
        { id: 'left', tool: 'demo:add', args: { a: 1, b: 2 } },
        { id: 'right', tool: 'demo:add', args: { a: '{{input.start}}', b: 4 } },
      ],
    },
    { id: 'total', tool: 'demo:add', args: { a: '{{prev.left.result}}', b: '{{steps.right.output.result}}' } },
    { id: 'big', tool: 'demo:echo', args: { value: 'big' }, when: { value: '{{prev.result}}', greaterThan: 100 } },
    { id: 'each', tool: 'demo:add', forEach: [10, 20, 30], args: { a: '{{item}}', b: '{{index}}' } },
  ],
  { input: { start: 3 } },
)
console.log('sums', sums.status)
show(sums.steps)

const steps = [
  { id: 'issue', tool: 'github:create_issue', args: { title: 'Crash on start' } },
  { id: 'labels', tool: 'github:add_labels', args: { issue: '{{steps.issue.output.number}}', labels: ['bug'] } },
]
const first = await gantry.chain(steps)
console.log('issue', first.status, first.error?.details?.step, first.error?.message)
show(first.steps)

online = true
const second = await gantry.chain(steps, { resume: { steps: first.steps } })
console.log('issue, resumed', second.status)
show(second.steps)
console.log('  calls made for the first step:', second.steps[0]?.results.length)

await gantry.close()
