import { codes } from '@gantry/contract'
import { viewSchemas } from '@gantry/service/internal/http/schemas'
import type { Page } from '../page.ts'

/** What the diagrams and tables of docs/reference/call-flow.md say of states and stages, against the source. */
export function diagramFaults(pages: readonly Page[]): readonly string[] {
  const file = 'docs/reference/call-flow.md'
  const [states = '', pipeline = ''] = (pages.find((page) => page.file === file)?.fences ?? [])
    .filter(({ language }) => language === 'mermaid')
    .map(({ text }) => text)
  const drawn = new Set(states.match(/(?<=^\s*|--> )[a-z]+(?= -->| :|$)/gm))
  const all = callStates()
  const stages = new Set(Object.values(codes).map(({ stage }) => stage))
  return [
    ...all.filter((state) => !drawn.has(state)).map((state) => `${file} does not draw the state ${state}`),
    ...[...drawn]
      .filter((state) => !all.includes(state))
      .map((state) => `${file} draws the state ${state}, which does not exist`),
    ...['lookup', 'authorize', 'resolve', 'execute', 'normalize']
      .filter((stage) => !pipeline.includes(`[${stage}]`) || ![...stages].includes(stage as never))
      .map((stage) => `${file} and the source differ on the stage ${stage}`),
  ]
}

/** The states that the view of a call can have. */
function callStates(): readonly string[] {
  const { CallView: view } = viewSchemas as { readonly CallView: { readonly properties: { readonly state: unknown } } }
  const { enum: states } = view.properties.state as { readonly enum: readonly string[] }
  return states
}
