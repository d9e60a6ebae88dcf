import type { JsonSchema } from '@gantry/contract'
import { addIssue, enough, type Node, type State, spend } from '../node.ts'
import { applicator, type Keyword, type Site } from './keyword.ts'

const children = (schemas: readonly JsonSchema[], site: Site): Node[] =>
  schemas.map((schema, index) => site.child(schema, index))

/** Collects the evaluated members of the branches that match the value. */
function collectFrom(nodes: readonly Node[]): Node['collect'] {
  if (nodes.every((node) => node.collect === undefined)) return undefined
  return (value, state, seen) => {
    spend(state, nodes.length)
    for (const node of nodes) if (node.collect && node.check(value, state)) node.collect(value, state, seen)
  }
}

export const allOf: Keyword<'schemaList'> = {
  shape: 'schemaList',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const nodes = children(value, site)
    return applicator(nodes, {
      check(instance, state) {
        spend(state, nodes.length)
        for (let index = 0; index < nodes.length; index++) if (!nodes[index]?.check(instance, state)) return false
        return true
      },
      report(instance, state, at) {
        spend(state, nodes.length)
        for (const node of nodes) node.report(instance, state, at)
      },
      collect: collectFrom(nodes),
    })
  },
}

/** The issues of the nearest branch, so that the reader sees one way to repair the value. */
function reportNearest(nodes: readonly Node[], value: unknown, state: State, at: string): void {
  const outer = { issues: state.issues, issuesLeft: state.issuesLeft }
  let nearest: State['issues'] | undefined
  for (const node of nodes) {
    state.issues = []
    state.issuesLeft = outer.issuesLeft
    try {
      node.report(value, state, at)
    } catch (stop) {
      if (stop !== enough) throw stop
    }
    if (nearest === undefined || state.issues.length < nearest.length) nearest = state.issues
  }
  state.issues = outer.issues
  state.issuesLeft = outer.issuesLeft
  for (const issue of nearest ?? []) {
    state.issues.push(issue)
    if (--state.issuesLeft <= 0) throw enough
  }
}

/** A keyword over alternatives; when none matches, its report goes on with the issues of the nearest. */
function alternatives(
  fits: (nodes: readonly Node[]) => Node['check'],
  describe: (nodes: readonly Node[], value: unknown, state: State) => { message: string; matches: boolean },
): Keyword<'schemaList'> {
  return {
    shape: 'schemaList',
    vocabulary: 'applicator',
    inPlace: true,
    rank: 5,
    build(value, site) {
      const { path, keyword } = site
      const nodes = children(value, site)
      const check = fits(nodes)
      return applicator(nodes, {
        check,
        report(instance, state, at) {
          if (check(instance, state)) return
          const { message, matches } = describe(nodes, instance, state)
          addIssue(state, at, path, keyword, message)
          if (!matches) reportNearest(nodes, instance, state, at)
        },
        collect: collectFrom(nodes),
      })
    },
  }
}

export const anyOf: Keyword<'schemaList'> = alternatives(
  (nodes) => (value, state) => {
    spend(state, nodes.length)
    for (let index = 0; index < nodes.length; index++) if (nodes[index]?.check(value, state)) return true
    return false
  },
  (nodes) => ({ message: `must match at least one of ${nodes.length} alternatives`, matches: false }),
)

export const oneOf: Keyword<'schemaList'> = alternatives(
  (nodes) => (value, state) => {
    spend(state, nodes.length)
    let found = 0
    for (let index = 0; index < nodes.length && found < 2; index++) if (nodes[index]?.check(value, state)) found++
    return found === 1
  },
  (nodes, value, state) => {
    const matching = nodes.flatMap((node, index) => (node.check(value, state) ? [index] : []))
    const count = matching.length === 0 ? 'none' : `alternatives ${matching.join(', ')}`
    const message = `must match exactly one of ${nodes.length} alternatives, but matches ${count}`
    return { message, matches: matching.length > 0 }
  },
)

export const not: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const { path, keyword } = site
    const node = site.child(value)
    return applicator([node], {
      check(instance, state) {
        spend(state, 1)
        return !node.check(instance, state)
      },
      report(instance, state, at) {
        spend(state, 1)
        if (node.check(instance, state)) addIssue(state, at, path, keyword, 'must not match the schema here')
      },
    })
  },
}

/** `then` and `else` are compiled with their `if`. */
export const branch: Keyword<'schema'> = { shape: 'schema', vocabulary: 'applicator', inPlace: true, rank: 5 }

export const condition: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const test = site.child(value)
    const yes = site.sibling('then')
    const no = site.sibling('else')
    return applicator(
      [test, yes, no].filter((node) => node !== undefined),
      {
        check(instance, state) {
          spend(state, 2)
          const next = test.check(instance, state) ? yes : no
          return next === undefined || next.check(instance, state)
        },
        report(instance, state, at) {
          spend(state, 2)
          const next = test.check(instance, state) ? yes : no
          next?.report(instance, state, at)
        },
        collect(instance, state, seen) {
          spend(state, 2)
          const holds = test.check(instance, state)
          if (holds) test.collect?.(instance, state, seen)
          const next = holds ? yes : no
          if (next?.collect && next.check(instance, state)) next.collect(instance, state, seen)
        },
      },
    )
  },
}
