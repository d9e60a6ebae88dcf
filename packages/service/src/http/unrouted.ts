import { ToolError } from '@gantry/contract'
import type { Answer } from './answer.ts'
import { problem } from './problems.ts'
import { methodsOf, type Route } from './route.ts'
import type { Arrival } from './serve.ts'

/** Answers requests that no route takes: the path may be known with other methods, or not at all. */
export function unrouted(routes: readonly Route[]): (arrival: Arrival) => Answer {
  const known = routes.map((route) => ({
    form: new RegExp(`^${route.path.replaceAll('.', '\\.').replaceAll(/:[a-z]+/g, '[^/]+')}$`),
    methods: methodsOf(route),
  }))
  return ({ request }) => {
    const [path = ''] = (request.url ?? '').split('?', 1)
    const methods = known.filter(({ form }) => form.test(path)).flatMap((one) => one.methods)
    // A path can look like one that is known, and hold a part that cannot be read.
    if (methods.length === 0 || methods.some((method) => method === request.method)) {
      return problem(
        new ToolError('NOT_FOUND', 'There is nothing at this address; /v1/openapi.json lists what there is.'),
      )
    }
    const allow = [...methods, 'OPTIONS'].join(', ')
    if (request.method === 'OPTIONS') return { kind: 'empty', status: 204, headers: { allow } }
    return problem(new ToolError('NOT_FOUND', `This address takes ${allow}.`), 405, { allow })
  }
}
