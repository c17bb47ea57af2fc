from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("customer", models.EmailField(max_length=254)),
                ("item", models.CharField(max_length=100)),
                ("placed_at", models.DateTimeField(auto_now_add=True)),
                ("confirmed_at", models.DateTimeField(editable=False, null=True)),
            ],
        ),
    ]
