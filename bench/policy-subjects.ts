import { allOf, createExecutor, type Decision, defineTool, type PolicyRequest, type Rule, rules } from 'gantry'
import { rankOf } from '../packages/core/src/policies/policy.ts'
import { isFor, readRule } from '../packages/core/src/policies/read-rule.ts'
import type { Setup } from './measure.ts'

const count = 1_000
const waiting = { signal: new AbortController().signal }
const numbers = Array.from({ length: count }, (_, index) => index)

/** Rules as a company has them: for teams and tenants, about namespaces and single tools, some on arguments. */
const mixed: readonly Rule[] = numbers.map((index): Rule => {
  const scope = [{ tenants: [`tenant-${index % 50}`] }, { to: `user-${index}` }, { roles: [`role-${index % 40}`] }, {}]
  const about = [`ns${index % 100}:*`, `ns${index % 100}:tool${index % 10}`, `ns${index % 100}:tool1*`]
  const when = index % 5 === 0 ? { when: { '/amount': { above: index } } } : {}
  const common = { ...scope[index % 4], ...when }
  const pattern = about[index % 3] ?? '*'
  if (index % 7 === 0) return { deny: pattern, ...common }
  return index % 11 === 0 ? { ask: pattern, ...common } : { allow: pattern, ...common }
})

/** Rules that each apply to all tools, for one caller. */
const personal: readonly Rule[] = numbers.map((index) => ({ allow: '*', to: `user-${index}` }))

/** The worst case: all rules apply to the same call, each with a condition on its arguments. */
const alike: readonly Rule[] = numbers.map((index) => ({ deny: 'ns7:*', when: { '/amount': { is: -index - 1 } } }))

/** Different calls, so that no branch is always the same. */
const requests: readonly PolicyRequest[] = numbers.map((index) => ({
  id: `ns${index % 100}:tool${index % 10}:1.0.0`,
  identity: {
    principal: `user-${(index * 7) % count}`,
    tenant: `tenant-${index % 60}`,
    permissions: [],
    roles: [`role-${index % 40}`, 'everyone'],
  },
  tool: {
    namespace: `ns${index % 100}`,
    name: `tool${index % 10}`,
    version: '1.0.0',
    description: 'A tool.',
    inputSchema: { type: 'object' },
    backends: [{ kind: 'local' }],
    effect: 'read',
  },
  args: { amount: index },
}))

function requestOf(n: number): PolicyRequest {
  return requests[n % count] as PolicyRequest
}

/** A linear search, as the simplest implementation. */
function scanning(list: readonly Rule[]): Setup {
  return () => {
    const compiled = list.flatMap((rule, index) => readRule(rule, index, []) ?? [])
    return (n) => {
      const { tool, identity, args } = requestOf(n)
      let found: Decision | undefined
      for (const rule of compiled) {
        if (found !== undefined && rankOf(found) >= rankOf(rule.decision)) continue
        const fits = (rule.about?.(tool) ?? true) && isFor(rule, identity) && (rule.when?.(args) ?? true)
        if (fits) found = rule.decision
      }
      return found
    }
  }
}

function deciding(list: readonly Rule[]): Setup {
  return () => {
    const policy = rules(list)
    return (n) => policy.decide(requestOf(n), waiting)
  }
}

function calling(policy: Parameters<typeof createExecutor>[0]): Setup {
  return async () => {
    const inputSchema = { type: 'object', properties: { amount: { type: 'number' } } } as const
    const run = ({ amount = 0 }: { amount?: number }): number => amount + 1
    const tool = defineTool({ namespace: 'ns8', name: 'tool3', description: 'Adds.', inputSchema, run })
    const executor = createExecutor({ tools: [tool], ...policy })
    // A denied call creates an error, which costs more than the decision.
    for (const amount of [0, 500, 999]) await executor.check('ns8:tool3', { amount })
    return (n) => executor.run('ns8:tool3', { amount: n % count })
  }
}

export const subjects: { readonly [name: string]: Setup } = {
  mixed: deciding(mixed),
  'mixed, scanned': scanning(mixed),
  personal: deciding(personal),
  'personal, scanned': scanning(personal),
  both: () => {
    const policy = allOf(rules(mixed), rules(personal))
    return (n) => policy?.decide(requestOf(n), waiting)
  },
  alike: () => {
    const policy = rules(alike, { default: 'allow' })
    const { identity } = requestOf(0)
    return (n) => policy.decide({ ...requestOf(7), identity, args: requestOf(n).args }, waiting)
  },
  call: calling({}),
  'call under rules': calling({ policy: { rules: mixed, default: 'allow' } }),
}
