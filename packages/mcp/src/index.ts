export { mcp } from './client/mcp.ts'
export type { McpHandler, McpOAuth, McpOptions, McpRestart, McpRoot, TokenStore } from './client/settings.ts'
