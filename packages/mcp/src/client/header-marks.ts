const mark = 'x-mcp-header'
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const carried: readonly unknown[] = ['string', 'integer', 'boolean']

type Node = { readonly [key: string]: unknown }

/**
 * What is wrong with the marks by which a tool wants arguments repeated in HTTP headers (2026-07-28), or undefined.
 * A client must leave out a tool whose marks break the rules: a mark is a header name, no two are alike, and each
 * stands on a plain text, whole number or truth value that is reached through `properties` alone.
 */
export function headerMarkFault(inputSchema: unknown): string | undefined {
  const seen = new Set<string>()
  const open: { readonly node: unknown; readonly direct: boolean }[] = [{ node: inputSchema, direct: false }]
  while (open.length > 0) {
    const { node, direct } = open.pop() ?? {}
    if (typeof node !== 'object' || node === null) continue
    const fault = mark in node ? markFault(node as Node, direct === true, seen) : undefined
    if (fault !== undefined) return fault
    // The schema itself is reached directly though it may not be marked.
    const reached = direct === true || node === inputSchema
    for (const [key, child] of Object.entries(node)) {
      if (key === mark || key === 'enum' || key === 'const' || key === 'default' || key === 'examples') continue
      const members =
        key === 'properties' && typeof child === 'object' && child !== null ? Object.values(child) : [child]
      for (const member of members) open.push({ node: member, direct: reached && key === 'properties' })
    }
  }
  return undefined
}

function markFault(node: Node, direct: boolean, seen: Set<string>): string | undefined {
  const name = node[mark]
  if (!direct) return `${mark} stands where no argument is reached by properties alone`
  if (typeof name !== 'string' || !token.test(name)) return `${mark} is not the name of a header`
  if (!carried.includes(node.type)) return `${mark} stands on something that is not a string, integer or boolean`
  const key = name.toLowerCase()
  if (seen.has(key)) return `${mark} names the same header twice`
  seen.add(key)
  return undefined
}
