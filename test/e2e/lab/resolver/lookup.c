/* lookup NAME...: the addresses of names as the C library's resolver finds them, one a line. Compiled against glibc and against musl. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static int lookup(const char *name)
{
	struct addrinfo hints, *list, *a;
	char text[INET6_ADDRSTRLEN];
	int rc;

	memset(&hints, 0, sizeof hints);
	hints.ai_socktype = SOCK_STREAM;
	rc = getaddrinfo(name, NULL, &hints, &list);
	if (rc != 0) {
		fprintf(stderr, "%s: %s\n", name, gai_strerror(rc));
		return 1;
	}
	for (a = list; a; a = a->ai_next) {
		const void *addr = a->ai_family == AF_INET ? (void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr
		                                           : (void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
		printf("%s\n", inet_ntop(a->ai_family, addr, text, sizeof text));
	}
	freeaddrinfo(list);
	return 0;
}

int main(int argc, char **argv)
{
	int i, rc = 0;

	for (i = 1; i < argc; i++)
		rc |= lookup(argv[i]);
	return rc;
}
