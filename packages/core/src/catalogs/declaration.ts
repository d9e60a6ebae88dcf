import type { Tool } from '@gantry/contract'
import { isIdentifier } from '@gantry/json-schema/internal/identifier-text'
import { commentText, typeText } from '@gantry/json-schema/internal/type-text'

export type DeclaredTool = Pick<
  Tool,
  'namespace' | 'name' | 'description' | 'inputSchema' | 'outputSchema' | 'deprecated'
>

const longestDescription = 300

/**
 * TypeScript declarations of tools as programs call them, `tools.namespace.name(args)`, by namespace and name. Whatever a
 * tool says of itself is data in it: a quoted name, a type or a line of a comment. Namespaces are there without tools too.
 */
export function toolDeclarations(tools: readonly DeclaredTool[], namespaces: readonly string[] = []): string {
  const spaces = Map.groupBy(tools, ({ namespace }) => namespace)
  for (const namespace of namespaces) if (!spaces.has(namespace)) spaces.set(namespace, [])
  const texts = [...spaces].sort(([a], [b]) => (a < b ? -1 : 1)).map(([namespace, own]) => spaceText(namespace, own))
  return `declare const tools: {\n${texts.join('')}}\n`
}

/** What a tool takes and gives, as types. */
export function toolTypes({ inputSchema, outputSchema }: DeclaredTool, indent = ''): { args: string; output: string } {
  return {
    args: typeText(inputSchema, { anything: 'unknown', indent }),
    output: outputSchema === undefined ? 'any' : typeText(outputSchema, { anything: 'any', indent }),
  }
}

/** Whether a tool can be called without arguments. */
export function takesNothing({ inputSchema }: DeclaredTool): boolean {
  if (typeof inputSchema !== 'object' || inputSchema === null) return true
  const { required } = inputSchema as { readonly required?: unknown }
  return !Array.isArray(required) || required.length === 0
}

function spaceText(namespace: string, tools: readonly DeclaredTool[]): string {
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1))
  return `  readonly ${memberName(namespace)}: {\n${sorted.map(toolText).join('')}  }\n`
}

function toolText(tool: DeclaredTool): string {
  const { args, output } = toolTypes(tool, '    ')
  const doc = docText(tool)
  const head = doc === '' ? '' : `    /** ${doc} */\n`
  return `${head}    ${memberName(tool.name)}(args${takesNothing(tool) ? '?' : ''}: ${args}): Promise<${output}>\n`
}

function docText({ description, deprecated }: DeclaredTool): string {
  const said = commentText(description, longestDescription)
  return deprecated === undefined ? said : `${said} @deprecated ${commentText(deprecated.message)}`
}

function memberName(name: string): string {
  return isIdentifier(name) ? name : JSON.stringify(name)
}
