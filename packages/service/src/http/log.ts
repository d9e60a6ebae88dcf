/** Where the HTTP door writes what happened; a pino logger fits. */
export interface HttpLog {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}
