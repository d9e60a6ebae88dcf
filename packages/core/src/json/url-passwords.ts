/** From the scheme to the colon behind the user, and the password up to the last @ before what follows the host. */
const password = /(:\/\/[^\s/?#:@]*:)[^\s/?#]+@/g

/** A text without the passwords of the URLs in it, of whatever scheme: `postgres://user:[redacted]@host`. */
export function withoutUrlPasswords(text: string, mark = '[redacted]'): string {
  return text.includes('://') ? text.replace(password, (_, before: string) => `${before}${mark}@`) : text
}
