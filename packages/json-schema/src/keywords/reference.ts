import type { Location, Resource } from '../location.ts'
import { type Node, type State, spend, tooDeep } from '../node.ts'
import type { Keyword, Site } from './keyword.ts'

/** Applies a referenced node. Only references make a check recurse, so only this code counts depth. */
function follow(choose: (state: State) => Jump, scoped: boolean): Node {
  const enter = (state: State, jump: Jump): number => {
    spend(state, 1)
    const levels = jump.node.height + 1
    state.depth += levels
    if (state.depth > state.maxDepth) throw tooDeep
    if (scoped) state.scope.push(jump.resource)
    return levels
  }
  const leave = (state: State, levels: number): void => {
    state.depth -= levels
    if (scoped) state.scope.pop()
  }
  return {
    check(value, state) {
      const jump = choose(state)
      const levels = enter(state, jump)
      const valid = jump.node.check(value, state)
      leave(state, levels)
      return valid
    },
    report(value, state, at) {
      const jump = choose(state)
      const levels = enter(state, jump)
      jump.node.report(value, state, at)
      leave(state, levels)
    },
    collect(value, state, seen) {
      const jump = choose(state)
      const levels = enter(state, jump)
      if (jump.node.collect && jump.node.check(value, state)) jump.node.collect(value, state, seen)
      leave(state, levels)
    },
    height: 1,
    types: 0,
    covered: false,
  }
}

interface Jump {
  readonly node: Node
  readonly resource: Resource
}

const jumpTo = (location: Location, site: Site): Jump => ({ node: site.nodeOf(location), resource: location.resource })

export const ref: Keyword<'reference'> = {
  shape: 'reference',
  vocabulary: 'core',
  rank: 5,
  build(_value, site) {
    if (site.location.ref === undefined) return undefined
    const jump = jumpTo(site.location.ref, site)
    return follow(() => jump, site.dynamic)
  },
}

/** Goes to the outermost resource in the dynamic scope that has the anchor, when the plain target has it too. */
export const dynamicRef: Keyword<'reference'> = {
  shape: 'reference',
  vocabulary: 'core',
  rank: 5,
  build(value, site) {
    const target = site.location.dynamicRef
    if (target === undefined) return undefined
    const plain = jumpTo(target, site)
    const name = value.slice(value.indexOf('#') + 1)
    if (target.resource.dynamicAnchors?.get(name) !== target) return follow(() => plain, true)
    const candidates = new Map<Resource, Jump>()
    for (const resource of site.resources) {
      const location = resource.dynamicAnchors?.get(name)
      if (location !== undefined) candidates.set(resource, jumpTo(location, site))
    }
    return follow((state) => {
      for (const resource of state.scope) {
        const jump = candidates.get(resource)
        if (jump !== undefined) return jump
      }
      return plain
    }, true)
  },
}

/** A node with a resource of its own enters it, so that dynamic references see it. */
export function inScope(node: Node, resource: Resource): Node {
  const within = <T>(state: State, run: () => T): T => {
    state.scope.push(resource)
    const result = run()
    state.scope.pop()
    return result
  }
  const { collect } = node
  return {
    ...node,
    check: (value, state) => within(state, () => node.check(value, state)),
    report: (value, state, at) => within(state, () => node.report(value, state, at)),
    collect: collect && ((value, state, seen) => within(state, () => collect(value, state, seen))),
    types: 0,
  }
}
