import type { JsonSchema } from '@gantry/contract'
import { addIssue, enough, type Node, type State, spend } from '../node.ts'
import { applicator, type Keyword, type Site } from './keyword.ts'

const children = (value: unknown, site: Site): Node[] =>
  (value as JsonSchema[]).map((schema, index) => site.child(schema, index))

/** Adds what the branches looked at that hold for the value. */
function collectFrom(nodes: readonly Node[]): Node['collect'] {
  if (nodes.every((node) => node.collect === undefined)) return undefined
  return (value, state, seen) => {
    spend(state, nodes.length)
    for (const node of nodes) if (node.collect && node.check(value, state)) node.collect(value, state, seen)
  }
}

export const allOf: Keyword = {
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

/** The issues of the branch that comes nearest, so that the reader sees one way to repair the value. */
function reportNearest(nodes: readonly Node[], value: unknown, state: State, at: string): void {
  const outer = { issues: state.issues, room: state.room }
  let nearest: State['issues'] | undefined
  for (const node of nodes) {
    state.issues = []
    state.room = outer.room
    try {
      node.report(value, state, at)
    } catch (stop) {
      if (stop !== enough) throw stop
    }
    if (nearest === undefined || state.issues.length < nearest.length) nearest = state.issues
  }
  state.issues = outer.issues
  state.room = outer.room
  for (const issue of nearest ?? []) {
    state.issues.push(issue)
    if (--state.room <= 0) throw enough
  }
}

export const anyOf: Keyword = {
  shape: 'schemaList',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const { path, keyword } = site
    const nodes = children(value, site)
    const check: Node['check'] = (instance, state) => {
      spend(state, nodes.length)
      for (let index = 0; index < nodes.length; index++) if (nodes[index]?.check(instance, state)) return true
      return false
    }
    return applicator(nodes, {
      check,
      report(instance, state, at) {
        if (check(instance, state)) return
        addIssue(state, at, path, keyword, `must match at least one of ${nodes.length} alternatives`)
        reportNearest(nodes, instance, state, at)
      },
      collect: collectFrom(nodes),
    })
  },
}

export const oneOf: Keyword = {
  shape: 'schemaList',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const { path, keyword } = site
    const nodes = children(value, site)
    const check: Node['check'] = (instance, state) => {
      spend(state, nodes.length)
      let found = 0
      for (let index = 0; index < nodes.length && found < 2; index++) if (nodes[index]?.check(instance, state)) found++
      return found === 1
    }
    return applicator(nodes, {
      check,
      report(instance, state, at) {
        if (check(instance, state)) return
        const matching = nodes.flatMap((node, index) => (node.check(instance, state) ? [index] : []))
        const count = matching.length === 0 ? 'none' : `alternatives ${matching.join(', ')}`
        const message = `must match exactly one of ${nodes.length} alternatives, but matches ${count}`
        addIssue(state, at, path, keyword, message)
        if (matching.length === 0) reportNearest(nodes, instance, state, at)
      },
      collect: collectFrom(nodes),
    })
  },
}

export const not: Keyword = {
  shape: 'schema',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const { path, keyword } = site
    const node = site.child(value as JsonSchema)
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
export const branch: Keyword = { shape: 'schema', vocabulary: 'applicator', inPlace: true, rank: 5 }

export const condition: Keyword = {
  shape: 'schema',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const test = site.child(value as JsonSchema)
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
