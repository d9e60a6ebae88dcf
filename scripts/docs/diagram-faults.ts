import { codes } from '@gantry/contract'
import { callStates } from '@gantry/service/internal/http/schemas'
import type { Page } from './page.ts'

/** What the diagrams and tables of docs/reference/call-flow.md say of states and stages, against the source. */
export function diagramFaults(pages: readonly Page[]): readonly string[] {
  const file = 'docs/reference/call-flow.md'
  const [states = '', pipeline = ''] = (pages.find((page) => page.file === file)?.fences ?? [])
    .filter(({ language }) => language === 'mermaid')
    .map(({ text }) => text)
  const drawn = new Set(states.match(/(?<=^\s*|--> )[a-z]+(?= -->| :|$)/gm))
  const all: readonly string[] = callStates
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
