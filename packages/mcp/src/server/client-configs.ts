/** How a client reaches Gantry: by a program that it starts, or over HTTP. */
export type ClientConnection =
  | { readonly kind: 'stdio'; readonly command: string; readonly args: readonly string[] }
  | { readonly kind: 'http'; readonly url: string; readonly key: string | undefined }

export interface ClientConfig {
  readonly title: string
  /** The location of the configuration file. */
  readonly file: string
  readonly text: string
  /** Notes for the user. */
  readonly notes: readonly string[]
}

export const clientNames = ['claude-desktop', 'claude-code', 'cursor', 'vscode', 'windsurf', 'codex', 'json'] as const
export type ClientName = (typeof clientNames)[number]

const variable = 'GANTRY_KEY'
const fromVariable = `Set ${variable} to the key before you start the client; it is not written here.`

/** The configuration that connects a client to Gantry, ready to paste. */
export function clientConfig(client: ClientName, way: ClientConnection): ClientConfig {
  switch (client) {
    case 'claude-desktop':
      if (way.kind === 'http') return desktopOverHttp(way.url)
      return servers('Claude Desktop', 'claude_desktop_config.json', 'mcpServers', started(way), [
        'On macOS it is in ~/Library/Application Support/Claude, on Windows in %APPDATA%\\Claude.',
      ])
    case 'claude-code':
      return servers(
        'Claude Code',
        '.mcp.json',
        'mcpServers',
        entry(way, 'url', `\${${variable}}`, { type: 'http' }),
        hint(way),
      )
    case 'cursor':
      return servers('Cursor', '~/.cursor/mcp.json', 'mcpServers', entry(way, 'url', `\${env:${variable}}`), hint(way))
    case 'windsurf': {
      const file = '~/.codeium/windsurf/mcp_config.json'
      return servers('Windsurf', file, 'mcpServers', entry(way, 'serverUrl', `\${env:${variable}}`), hint(way))
    }
    case 'vscode':
      return forVsCode(way)
    case 'codex':
      return forCodex(way)
    case 'json':
      return servers(
        'any other client',
        'its configuration',
        'mcpServers',
        entry(way, 'url', `\${${variable}}`, { type: 'http' }),
        hint(way),
      )
  }
}

type Stdio = Extract<ClientConnection, { readonly kind: 'stdio' }>

function started({ command, args }: Stdio): object {
  return { command, args }
}

function entry(way: ClientConnection, member: string, reference: string, more: object = {}): object {
  if (way.kind === 'stdio') return started(way)
  return { ...more, [member]: way.url, headers: { Authorization: `Bearer ${way.key ?? reference}` } }
}

function hint(way: ClientConnection): string[] {
  return way.kind === 'http' && way.key === undefined ? [fromVariable] : []
}

function servers(title: string, file: string, member: string, gantry: object, notes: readonly string[]): ClientConfig {
  return { title, file, text: JSON.stringify({ [member]: { gantry } }, null, 2), notes }
}

function desktopOverHttp(url: string): ClientConfig {
  const notes = [
    'Claude Desktop reaches servers over HTTP as connectors, which are added in its settings and need HTTPS.',
    'On this machine use the program instead: gantry mcp install claude-desktop.',
  ]
  return { title: 'Claude Desktop', file: 'Settings, Connectors, Add custom connector', text: url, notes }
}

function forVsCode(way: ClientConnection): ClientConfig {
  const asks = way.kind === 'http' && way.key === undefined
  const gantry =
    way.kind === 'stdio'
      ? { type: 'stdio', ...started(way) }
      : entry(way, 'url', `\${input:gantry-key}`, { type: 'http' })
  const input = { type: 'promptString', id: 'gantry-key', description: 'Key of Gantry', password: true }
  const document = { ...(asks ? { inputs: [input] } : {}), servers: { gantry } }
  const notes = asks ? ['VS Code asks for the key once and keeps it safe.'] : []
  return { title: 'VS Code', file: '.vscode/mcp.json', text: JSON.stringify(document, null, 2), notes }
}

function forCodex(way: ClientConnection): ClientConfig {
  const lines =
    way.kind === 'stdio'
      ? [`command = ${JSON.stringify(way.command)}`, `args = ${JSON.stringify(way.args)}`]
      : [
          `url = ${JSON.stringify(way.url)}`,
          way.key === undefined
            ? `bearer_token_env_var = "${variable}"`
            : `http_headers = { Authorization = ${JSON.stringify(`Bearer ${way.key}`)} }`,
        ]
  const text = ['[mcp_servers.gantry]', ...lines].join('\n')
  return { title: 'Codex CLI', file: '~/.codex/config.toml', text, notes: hint(way) }
}
